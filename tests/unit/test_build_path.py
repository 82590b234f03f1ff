"""What is kept of a build path: everything, unless the last compile there was cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.build import _build_path
from harness.arduino.precompiled import discovery_properties
from harness.boards.board import find_board

WHOLE = b"\x7fELF\x01" + bytes(27) + (52).to_bytes(4, "little") + bytes(16)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def fill(folder: Path) -> None:
    inner = folder / "libraries" / "L"
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "whole.o").write_bytes(WHOLE)
    (inner / "torn.o").write_bytes(WHOLE[:30])
    (inner / "objs.a").write_bytes(b"!<arch>\n")
    (inner / "whole.d").write_text("")


def test_a_compile_that_came_back_leaves_everything(tmp_path: Path) -> None:
    with _build_path(tmp_path / "out"):
        fill(tmp_path / "out")
    with _build_path(tmp_path / "out"):
        assert {"whole.o", "torn.o", "objs.a", "whole.d"} <= files(tmp_path / "out")
    assert files(tmp_path / "out") == {"whole.o", "torn.o", "objs.a", "whole.d"}


def test_after_an_interruption_what_is_half_written_goes(tmp_path: Path) -> None:
    fill(tmp_path)
    with pytest.raises(KeyboardInterrupt), _build_path(tmp_path):
        raise KeyboardInterrupt
    with _build_path(tmp_path):
        assert {"whole.o", "whole.d"} <= files(tmp_path)
        assert not {"torn.o", "objs.a"} & files(tmp_path)


def test_only_the_librarys_own_sources_are_left_out_of_the_discovery() -> None:
    assert discovery_properties(find_board("m33"), Path("/l/E")) == {
        "compiler.preproc.wrapper": 'sh -c \'case "$1" in "/l/E"/*) exit 0;; esac; shift;'
        ' exec "$@"\' discovery "{source_file}"'
    }
    assert discovery_properties(find_board("unoq"), Path("/l/E")) == {}
