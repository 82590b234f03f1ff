"""The files and build properties that give the library's sources their precompiled headers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import process
from harness.arduino.pch import compile_properties
from harness.arduino.pch_plan import COST_IN_SOURCES
from harness.boards.board import find_board

Properties = Callable[[], dict[str, str]]

COMPILER = """\
#!/bin/sh
# Says how it was called, and makes what it was asked for.
echo "$0 $*" >>"{log}"
while [ $# -gt 0 ]; do
    [ "$1" = -fpch-deps ] && [ -e "{log}.clang" ] && {{ echo "unknown argument" >&2; exit 1; }}
    [ "$1" = -include ] && [ -e "{log}.crash" ] && {{ echo "internal error" >&2; exit 4; }}
    [ "$1" = -include ] && echo "a warning" >&2
    [ "$1" = -o ] && echo made >"$2"
    shift
done
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of which all sources but one include the same header, at a path with a space."""
    root = tmp_path / "a b" / "Lib" / "src"
    (root / "deep").mkdir(parents=True)
    (root / "kernel.h").write_text("#pragma once\n#include <deep/types.h>\n", encoding="utf-8")
    (root / "deep" / "types.h").write_text("using number = int;\n", encoding="utf-8")
    for number in range(COST_IN_SOURCES + 3):
        (root / f"op_{number}.cpp").write_text("#include <kernel.h>\n", encoding="utf-8")
    (root / "alone.cpp").write_text("int x;\n", encoding="utf-8")
    return root.parent


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    path = tmp_path / "c++"
    path.write_text(COMPILER.format(log=tmp_path / "calls"), encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def properties(library: Path, tmp_path: Path) -> Properties:
    return lambda: compile_properties(find_board("m33"), library, tmp_path / "p c h", "toolchain")


def headers(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "p c h").glob("*.h"))


def make(tmp_path: Path, compiler: Path) -> None:
    argv = ("sh", str(tmp_path / "p c h" / "make.sh"), str(compiler), "-Os", "-DA=b c")
    assert process.run(argv, timeout_s=10, cwd=Path("/")).ok


def calls(tmp_path: Path) -> list[str]:
    log = tmp_path / "calls"
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    log.unlink(missing_ok=True)
    return lines


def compiled(tmp_path: Path, compiler: Path, source: Path) -> list[str]:
    script = str(tmp_path / "p c h" / "compile.sh")
    argv = ("sh", script, str(source), str(compiler), "-Os", str(source), "-o", "/dev/null")
    assert process.run(argv, timeout_s=10).ok
    return calls(tmp_path)


def test_the_properties_name_both_scripts(properties: Properties, tmp_path: Path) -> None:
    folder = tmp_path / "p c h"
    src = tmp_path / "a b" / "Lib" / "src"
    assert properties() == {
        "recipe.hooks.libraries.prebuild.1.pattern": f'sh "{folder}/make.sh"'
        ' "{compiler.path}{compiler.cpp.cmd}" {compiler.cpp.flags} {compiler.cpp.extra_flags}'
        f' "-I{{build.core.path}}" "-I{{build.variant.path}}" "-I{src}"',
        "compiler.wrapper": f'sh "{folder}/compile.sh" "{{source_file}}"',
    }


def test_only_sources_of_the_plan_get_a_header(
    properties: Properties, library: Path, compiler: Path, tmp_path: Path
) -> None:
    properties()
    make(tmp_path, compiler)
    (header,) = headers(tmp_path)
    assert header.read_text(encoding="utf-8") == "#include <kernel.h>\n"
    (made,) = calls(tmp_path)
    assert made == (f"{compiler} -Os -DA=b c -fpch-deps -x c++-header {header} -o {header}.part")
    assert header.with_name(f"{header.name}.gch").read_text() == "made\n"
    led, alone = library / "src" / "op_0.cpp", library / "src" / "alone.cpp"
    assert compiled(tmp_path, compiler, led) == [
        f"{compiler} -fpch-deps -include {header} -Os {led} -o /dev/null"
    ]
    for source in (alone, library / "src" / "op_0.c", Path("/core/main.cpp")):
        assert compiled(tmp_path, compiler, source) == [f"{compiler} -Os {source} -o /dev/null"]


def test_a_compiler_that_cannot_make_one_compiles_as_ever(
    properties: Properties, library: Path, compiler: Path, tmp_path: Path
) -> None:
    (tmp_path / "calls.clang").touch()
    properties()
    make(tmp_path, compiler)
    (header,) = headers(tmp_path)
    assert not list(tmp_path.rglob("*.gch"))
    assert header.with_name(f"{header.name}.log").read_text() == "unknown argument\n"
    calls(tmp_path)
    source = library / "src" / "op_0.cpp"
    assert compiled(tmp_path, compiler, source) == [f"{compiler} -Os {source} -o /dev/null"]


def test_a_compiler_that_fails_with_one_is_called_without(
    properties: Properties, library: Path, compiler: Path, tmp_path: Path
) -> None:
    """As GCC 12 does on arm_mve.h; and a mistake is said in the words of a plain compile."""
    properties()
    make(tmp_path, compiler)
    (header,) = headers(tmp_path)
    source = library / "src" / "op_0.cpp"
    argv = ("sh", str(header.with_name("compile.sh")), str(source), str(compiler), "-Os", "a b")
    assert process.run(argv, timeout_s=10).stderr == "a warning\n"
    (tmp_path / "calls.crash").touch()
    calls(tmp_path)
    done = process.run(argv, timeout_s=10)
    assert (done.ok, done.stderr) == (True, "")
    assert calls(tmp_path) == [
        f"{compiler} -fpch-deps -include {header} -Os a b",
        f"{compiler} -Os a b",
    ]
    assert not list(header.parent.glob("*.h.[0-9]*"))


def test_what_still_fits_is_kept(
    properties: Properties, library: Path, compiler: Path, tmp_path: Path
) -> None:
    properties()
    make(tmp_path, compiler)
    (header,) = headers(tmp_path)
    os.utime(header, ns=(0, 0))
    calls(tmp_path)
    header.with_name(f"{header.name}.123").write_text("of a compile that was killed")
    (library / "src" / "op_0.cpp").write_text("#include <kernel.h>\nint more;\n", encoding="utf-8")
    properties()
    make(tmp_path, compiler)
    assert headers(tmp_path) == [header]
    # Every object made from it depends on it: touched, it would make them all anew.
    assert header.stat().st_mtime_ns == 0
    assert not list(header.parent.glob("*.123"))
    assert calls(tmp_path) == []


def test_a_line_more_inside_makes_it_anew(
    properties: Properties, library: Path, compiler: Path, tmp_path: Path
) -> None:
    properties()
    make(tmp_path, compiler)
    before = headers(tmp_path)
    types = library / "src" / "deep" / "types.h"
    types.write_text("// moves every __LINE__ below\n" + types.read_text(), encoding="utf-8")
    properties()
    after = headers(tmp_path)
    assert len(after) == 1
    assert after != before
    assert not list(tmp_path.rglob("*.gch"))


def test_another_toolchain_makes_it_anew(
    properties: Properties, library: Path, tmp_path: Path
) -> None:
    properties()
    before = headers(tmp_path)
    compile_properties(find_board("m33"), library, tmp_path / "p c h", "another toolchain")
    assert headers(tmp_path) != before


def test_a_core_of_someone_elses_compiles_plainly(library: Path, tmp_path: Path) -> None:
    assert compile_properties(find_board("unoq"), library, tmp_path / "p", "toolchain") == {}
    assert not (tmp_path / "p").exists()


def test_a_library_in_which_none_pays_has_none(
    properties: Properties, library: Path, compiler: Path, tmp_path: Path
) -> None:
    properties()
    make(tmp_path, compiler)
    for path in library.rglob("op_*.cpp"):
        path.write_text("int y;\n", encoding="utf-8")
    assert properties() == {}
    assert not (tmp_path / "p c h").exists()
