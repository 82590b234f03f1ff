"""What the runs in processes of their own need here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.child_run import ChildBench


@pytest.fixture(scope="module")
def child_folder() -> Iterator[Path]:
    """A short runtime folder, since sockets lie in it."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    with TemporaryDirectory(prefix="hil") as folder:
        yield Path(folder)


@pytest.fixture
def child(child_folder: Path, tmp_path: Path) -> ChildBench:
    """A bench of its own for runs in child processes."""
    return ChildBench(child_folder, tmp_path / "out", {})
