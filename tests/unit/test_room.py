from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BenchError
from harness.storage.room import require_room


def test_a_disk_with_room_is_no_matter(tmp_path: Path) -> None:
    require_room(tmp_path / "not" / "yet" / "there", needed_bytes=1)


def test_a_full_disk_is_said_with_its_numbers(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"the disk is full: '.*' has \d+ B left") as caught:
        require_room(tmp_path, needed_bytes=1 << 62)
    assert "HIL_CACHE" in caught.value.remedy
