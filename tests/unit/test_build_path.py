"""What is kept of a build path: everything, unless the last compile there was cut short."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.build import LinkLibrary, _build_path, board_properties
from harness.arduino.precompiled import _linked, discovery_properties
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


STAGED = Path("/b/sketch/A")


def test_the_benchs_own_platform_links_the_archive_inside_the_library() -> None:
    board = find_board("m33")
    library = _linked(Path("/c/key"), "key", board)
    assert library == LinkLibrary(Path("/c/key/ExecuTorch"), "key", precompiled=True)
    assert board_properties(board, STAGED, library) == {
        "compiler.prefix_map": "-ffile-prefix-map=/b/sketch/A=sketch"
        " -ffile-prefix-map=/c/key/ExecuTorch=ExecuTorch"
    }


def test_another_core_gets_the_archive_whole_on_its_link_line() -> None:
    board = find_board("unoq")
    library = _linked(Path("/c/key"), "key", board)
    assert library == LinkLibrary(
        Path("/c/key/ExecuTorch"), "key", False, archive=Path("/c/key/libExecuTorch.a")
    )
    maps = "-ffile-prefix-map=/b/sketch/A=sketch -ffile-prefix-map=/c/key/ExecuTorch=ExecuTorch"
    assert board_properties(board, STAGED, library) == {
        "compiler.c.extra_flags": maps,
        "compiler.cpp.extra_flags": maps,
        "compiler.c.elf.extra_flags": '-Wl,--whole-archive "/c/key/libExecuTorch.a"'
        " -Wl,--no-whole-archive",
    }


def test_another_core_without_a_library_gets_its_sketchs_path_taken_out_only() -> None:
    assert board_properties(find_board("unoq"), Path("/a b/A"), None) == {
        "compiler.c.extra_flags": '"-ffile-prefix-map=/a b/A=sketch"',
        "compiler.cpp.extra_flags": '"-ffile-prefix-map=/a b/A=sketch"',
    }
