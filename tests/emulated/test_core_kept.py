"""A core that was compiled once serves every sketch, through the real arduino-cli."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.build import Compiled, invoke
from harness.arduino.cli import ArduinoCli, open_cli
from harness.arduino.core_home import open_core
from harness.arduino.elf import image_shape
from harness.boards.board import Board, find_board
from harness.paths import cache_dir
from tests.emulated.direct import need, running, write_sketch
from tests.own_cache import own_cache as make_own_cache

SKETCH = """
void setup() { Serial.begin(115200); Serial.println("here"); }
void loop() {}
"""


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache in which no core was compiled yet."""
    return make_own_cache(tmp_path, monkeypatch)


def build(cli: ArduinoCli, board: Board, folder: Path) -> Compiled:
    folder.mkdir(parents=True, exist_ok=True)
    sketch = folder / "says"
    staged = sketch if sketch.is_dir() else write_sketch(folder, "says", SKETCH)
    return invoke(cli, board, staged, folder / "out", None, sketch="says")


def objects(folder: Path) -> dict[str, int]:
    """When each of the core's objects was made."""
    core = folder / "out" / "core"
    return {
        str(path.relative_to(core)): path.stat().st_mtime_ns
        for path in core.rglob("*")
        if path.suffix in {".o", ".a"}
    }


@pytest.mark.usefixtures("own_cache")
def test_the_second_sketch_compiles_no_file_of_the_core(tmp_path: Path) -> None:
    board = find_board("m33")
    need(board)
    cli = open_cli()
    first, second = tmp_path / "first", tmp_path / "second"
    build(cli, board, first)
    compiled = objects(first)
    assert len(compiled) > 10
    assert len(set(compiled.values())) > 10
    build(cli, board, second)
    put = objects(second)
    # All of one time: arduino-cli found them up to date, and made no object and no archive.
    assert put.keys() == compiled.keys()
    assert len(set(put.values())) == 1
    one, other = (each / "out" / "says.ino.elf" for each in (first, second))
    assert image_shape(one) == image_shape(other)
    with running(board, other) as sketch:
        sketch.until(b"here")
    # And again in the same place, where nothing changed.
    build(cli, board, second)
    assert objects(second) == put


@pytest.mark.usefixtures("own_cache")
def test_an_object_that_is_missing_or_old_is_compiled(tmp_path: Path) -> None:
    board = find_board("m33")
    need(board)
    cli = open_cli()
    build(cli, board, tmp_path / "first")
    second = tmp_path / "second"
    build(cli, board, second)
    put = objects(second)
    gone = next(name for name in put if name.endswith("main.cpp.o"))
    (second / "out" / "core" / gone).unlink()
    build(cli, board, second)
    after = objects(second)
    assert {name for name in after if after[name] != put[name]} == {gone, "core.a"}


@pytest.mark.usefixtures("own_cache")
def test_each_board_and_core_has_its_own(tmp_path: Path) -> None:
    unoq = find_board("unoq")
    need(find_board("m33"))
    build(open_cli(), find_board("m33"), tmp_path / "m33")
    build(open_cli(), find_board("m4f"), tmp_path / "m4f")
    for version in ("0.55.2", "0.90.0"):
        core = unoq.core_version(version)
        build(open_core(unoq, core, virtual=True), unoq, tmp_path / version)
        assert len(set(objects(tmp_path / version).values())) > 10
        build(open_core(unoq, core, virtual=True), unoq, tmp_path / f"again-{version}")
        assert len(set(objects(tmp_path / f"again-{version}").values())) == 1
    assert len(set(objects(tmp_path / "m4f").values())) > 10
    assert len(list((cache_dir() / "core").glob("[!.]*"))) == 4
