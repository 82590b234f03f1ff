"""Precompiled headers with the real compiler: the same code, and nothing stale."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bare import Call, code, commands, compile_all
from harness import process
from harness.arduino.build import Compiled, LinkLibrary, invoke
from harness.arduino.cli import open_cli
from harness.arduino.elf import image_shape
from harness.arduino.pch import compile_properties
from harness.arduino.pch_plan import COST_IN_SOURCES, Sources, plan
from harness.arduino.precompiled import link_library
from harness.arduino.sketch import read_sketch, stage
from harness.boards.board import Board, find_board
from harness.errors import DutFailure
from harness.library.resolve import Library
from tests.emulated.direct import need, write_sketch
from tests.real_library import configured_checkout, library_of

SOURCES = COST_IN_SOURCES + 3
EVERY = 17
"""Of the library's sources that have a precompiled header, every how many-eth is looked at here;
``python -m benchmarks.cold`` looks at all of them."""

TYPES = """#pragma once
#include <algorithm>
#include <functional>
#include <vector>
inline int answer(int value) { return value * 41; }
"""
SOURCE = """#include <deep/kernel.h>
int op_%d(int value) { return answer(value + %d); }
"""
SKETCH = """#include <ExecuTorch.h>
void setup() { Serial.begin(115200); Serial.println(op_0(static_cast<int>(millis()))); }
void loop() {}
"""


@pytest.fixture
def board() -> Board:
    found = find_board("m33")
    need(found)
    return found


@pytest.fixture
def library(tmp_path: Path) -> Path:
    root = tmp_path / "ExecuTorch"
    files = {
        "library.properties": "name=ExecuTorch\nversion=0.0.1\narchitectures=*\n",
        "src/ExecuTorch.h": "#pragma once\nint op_0(int value);\n",
        "src/deep/types.h": TYPES,
        "src/deep/kernel.h": "#pragma once\n#include <deep/types.h>\n",
        **{f"src/op_{n}.cpp": SOURCE % (n, n) for n in range(SOURCES)},
        "src/alone.c": "int alone(void) { return 7; }\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def real() -> Library:
    """The library of the user's checkout."""
    return library_of(configured_checkout())


def build(board: Board, library: Path, folder: Path) -> Compiled:
    sketch = folder / "uses"
    return invoke(
        open_cli(),
        board,
        sketch if sketch.is_dir() else write_sketch(folder, "uses", SKETCH),
        folder / "out",
        LinkLibrary(library, "", precompiled=False),
        sketch="uses",
        properties=compile_properties(board, library, folder / "pch", "toolchain"),
    )


def objects(library: Path, folder: Path) -> list[Call]:
    return commands(folder / "out", library / "src", folder / "bare")


def assert_plain_code(calls: list[Call], folder: Path) -> None:
    compile_all(calls, folder / "bare")
    different = [each.source for each in calls if code(each.built) != code(each.bare_object)]
    assert different == []


def test_objects_hold_the_code_of_a_plain_compile(
    board: Board, library: Path, tmp_path: Path
) -> None:
    build(board, library, tmp_path)
    calls = objects(library, tmp_path)
    assert len(calls) == SOURCES + 1
    assert all(each.argv[0].endswith(("g++", "gcc")) for each in calls)
    (made,) = (tmp_path / "pch").glob("*.gch")
    assert made.stat().st_size > 1_000_000
    dependencies = (tmp_path / "out/libraries/ExecuTorch/op_0.cpp.d").read_text()
    assert "deep/types.h" in dependencies
    assert made.stem in dependencies
    assert_plain_code(calls, tmp_path)


def test_what_changed_inside_a_header_reaches_every_object(
    board: Board, library: Path, tmp_path: Path
) -> None:
    build(board, library, tmp_path)
    before = {each.source: code(each.built) for each in objects(library, tmp_path)}
    types = library / "src" / "deep" / "types.h"
    types.write_text(TYPES.replace("41", "4321"), encoding="utf-8")
    build(board, library, tmp_path)
    calls = objects(library, tmp_path)
    assert_plain_code(calls, tmp_path)
    same = [each.source.name for each in calls if code(each.built) == before[each.source]]
    assert same == ["alone.c"]


def test_one_changed_source_is_the_only_one_compiled_again(
    board: Board, library: Path, tmp_path: Path
) -> None:
    build(board, library, tmp_path)
    made = {each: each.built.stat().st_mtime_ns for each in objects(library, tmp_path)}
    changed = library / "src" / "op_3.cpp"
    changed.write_text(SOURCE % (3, 99), encoding="utf-8")
    build(board, library, tmp_path)
    anew = [each.source.name for each, at in made.items() if each.built.stat().st_mtime_ns != at]
    assert anew == ["op_3.cpp"]
    assert_plain_code(objects(library, tmp_path), tmp_path)


def test_a_mistake_in_a_source_is_reported_where_it_is(
    board: Board, library: Path, tmp_path: Path
) -> None:
    wrong = library / "src" / "op_2.cpp"
    wrong.write_text("#include <deep/kernel.h>\nint op_2() { return missing; }\n", encoding="utf-8")
    with pytest.raises(DutFailure) as got:
        build(board, library, tmp_path)
    said = "\n".join((got.value.message, *got.value.evidence))
    assert "op_2.cpp:2" in said
    assert "'missing' was not declared" in said


def test_a_mistake_in_a_header_is_reported_where_it_is(
    board: Board, library: Path, tmp_path: Path
) -> None:
    types = library / "src" / "deep" / "types.h"
    types.write_text(TYPES + "int broken(\n", encoding="utf-8")
    with pytest.raises(DutFailure) as got:
        build(board, library, tmp_path)
    assert not list((tmp_path / "pch").glob("*.gch"))
    said = "\n".join((got.value.message, *got.value.evidence))
    assert "kernel.h" in said or "types.h" in said or "op_" in said


def test_the_real_librarys_objects_hold_the_code_of_a_plain_compile(
    board: Board, library: Path, real: Library, tmp_path: Path
) -> None:
    planned = plan(Sources(real.path / "src"))
    led = [source for each in planned.values() for source in each]
    assert len(led) > 100
    # The flags of arduino-cli's own calls, and the two scripts as its recipes call them.
    build(board, library, tmp_path)
    call = next(each for each in objects(library, tmp_path) if each.source.suffix == ".cpp")
    flags = [
        each.replace(str(library), str(real.path))
        for each in call.argv[: call.argv.index("-o")]
        if each != str(call.source)
    ]
    folder = tmp_path / "real"
    compile_properties(board, real.path, folder, "toolchain")
    argv = ("sh", str(folder / "make.sh"), *flags)
    assert process.run(argv, timeout_s=100).ok
    assert len(list(folder.glob("*.gch"))) == len(planned)
    for source in (source for each in planned.values() for source in each[::EVERY]):
        plain, ours = tmp_path / "plain.o", tmp_path / "ours.o"
        end = ("-Winvalid-pch", "-Werror=invalid-pch", str(source), "-o")
        assert process.run((*flags, *end, str(plain)), timeout_s=100).ok
        wrapper = ("sh", str(folder / "compile.sh"), str(source))
        done = process.run((*wrapper, *flags, *end, str(ours)), timeout_s=100)
        assert done.ok, done.tail()
        assert code(ours) == code(plain), source


def test_sketches_hold_the_code_of_a_plain_compile(
    board: Board, real: Library, tmp_path: Path
) -> None:
    """Upstream's examples and the runner, each with its own prefix maps and the same header."""
    cli = open_cli()
    linked = link_library(cli, board, real)
    assert linked.pch is not None
    assert (linked.pch / "leading.h.gch").is_file()
    for name in ("HelloExecuTorch", "AddModel", "KeywordSpotting"):
        staged = stage(read_sketch(real.path / "examples" / name), tmp_path / name)
        built: list[Path] = []
        for how in (linked, replace(linked, pch=None)):
            out = tmp_path / name / f"out{len(built)}"
            made = invoke(cli, board, staged, out, how, sketch=name)
            assert any("compile.sh" in word for word in made.command) == (how is linked)
            built.append(out)
        ours, plain = (each / "sketch" / f"{name}.ino.cpp.o" for each in built)
        assert code(ours) == code(plain)
        # The header was used: what is inside it is on no list of the object's.
        assert "ExecuTorch/src/executorch" not in ours.with_suffix(".d").read_text()
        assert "ExecuTorch/src/executorch" in plain.with_suffix(".d").read_text()
        assert image_shape(built[0] / f"{name}.ino.elf") == image_shape(
            built[1] / f"{name}.ino.elf"
        )
