"""Which sources may start from which precompiled header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.arduino.pch_plan import COST_IN_SOURCES, Sources, plan

KERNEL = "#pragma once\n#include <deep/types.h>\nint run();\n"
TYPES = "#pragma once\n" + "using number = int;\n" * 50
MANY = COST_IN_SOURCES + 5


def library(root: Path, files: Mapping[str, str], source: str, count: int = MANY) -> Sources:
    """A library of ``count`` like sources beside ``files``."""
    everything = {"kernel.h": KERNEL, "deep/types.h": TYPES, **files}
    everything |= {f"ops/op_{number}.cpp": source for number in range(count)}
    for name, text in everything.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Sources(root)


def planned(sources: Sources) -> dict[str, int]:
    return {
        header.relative_to(sources.root).as_posix(): len(led)
        for header, led in plan(sources).items()
    }


def test_the_header_that_saves_most_leads_all_who_include_it(tmp_path: Path) -> None:
    sources = library(tmp_path, {"alone.cpp": "int x;\n"}, "#include <kernel.h>\nint f;\n")
    assert planned(sources) == {"kernel.h": MANY}
    assert tmp_path / "alone.cpp" not in next(iter(plan(sources).values()))


def test_a_header_for_too_few_sources_is_not_worth_making(tmp_path: Path) -> None:
    for count in (0, COST_IN_SOURCES):
        assert planned(library(tmp_path / str(count), {}, "#include <kernel.h>\n", count)) == {}


def test_one_reached_through_another_header_counts(tmp_path: Path) -> None:
    text = '/* the licence */\n#include <cmath>\n#include "near.h"\n// words\n#include <vector>\n'
    files = {"ops/near.h": "#pragma once\n#include <kernel.h>\n"}
    assert planned(library(tmp_path, files, text)) == {"ops/near.h": MANY}


@pytest.mark.parametrize(
    "before",
    [
        "#define KERNEL_MODE 2\n",
        "#undef assert\n",
        "#ifdef ANY\n#endif\n",
        "int x;\n",
        "namespace a { }\n",
        '#pragma GCC optimize("O0")\n',
    ],
)
def test_a_source_with_anything_before_the_header_is_left_alone(
    tmp_path: Path, before: str
) -> None:
    assert planned(library(tmp_path, {}, f"{before}#include <kernel.h>\n")) == {}


def test_an_include_that_a_condition_may_leave_out_is_none(tmp_path: Path) -> None:
    for text in ("#if 0\n#include <kernel.h>\n#endif\n", "int x;\n#ifdef A\n#include <kernel.h>\n"):
        assert planned(library(tmp_path, {}, text)) == {}
    files = {"maybe.h": "#pragma once\n#ifdef A\n#include <kernel.h>\n#endif\n"}
    assert "kernel.h" not in planned(library(tmp_path, files, "#include <maybe.h>\n"))


def test_an_include_guard_is_no_condition(tmp_path: Path) -> None:
    guarded = f"#ifndef KERNEL_H\n#define KERNEL_H\n{KERNEL}#endif\n"
    sources = library(tmp_path, {"kernel.h": guarded}, "#include <kernel.h>\n")
    assert planned(sources) == {"kernel.h": MANY}
    nested = guarded.replace("#include", "#ifdef A\n#include").replace("int run", "#endif\nint run")
    sources = library(tmp_path, {"kernel.h": nested}, "#include <kernel.h>\n")
    assert tmp_path / "deep/types.h" not in sources.reached(tmp_path / "kernel.h", surely=True)


def test_a_macro_that_the_header_would_see_decides(tmp_path: Path) -> None:
    """As selective builds do: defined before the header, which has a default for it."""
    text = "#include <first.h>\n#include <kernel.h>\n"
    default = "#pragma once\n#ifndef CHECK\n#define CHECK(x) true\n#endif\n" + TYPES
    quiet = {"first.h": "#pragma once\nint first();\n", "kernel.h": default}
    assert planned(library(tmp_path / "a", quiet, text)) == {"kernel.h": MANY}
    loud = {**quiet, "first.h": "#pragma once\n#define CHECK(x) chosen(x)\n"}
    assert "kernel.h" not in planned(library(tmp_path / "b", loud, text))
    deep = {**quiet, "first.h": "#include <second.h>\n", "second.h": loud["first.h"]}
    assert "kernel.h" not in planned(library(tmp_path / "c", deep, text))


def test_a_macro_of_the_header_decides_for_who_does_not_include_it(tmp_path: Path) -> None:
    """Read after the header, it would see a macro that by rights it does not."""
    text = "#include <first.h>\n#include <kernel.h>\n"
    kernel = "#pragma once\n#include <mode.h>\n" + TYPES
    files = {"mode.h": "#pragma once\n#define FAST 1\n", "kernel.h": kernel}
    unaware = {**files, "first.h": "#pragma once\n#ifdef FAST\nint fast();\n#endif\n"}
    assert "kernel.h" not in planned(library(tmp_path / "a", unaware, text))
    aware = {**files, "first.h": "#pragma once\n#include <mode.h>\n#ifdef FAST\nint f();\n#endif\n"}
    assert planned(library(tmp_path / "b", aware, text)) == {"kernel.h": MANY}
    commented = {**files, "first.h": "#pragma once\n// FAST\n/* FAST */\nint f();\n"}
    assert planned(library(tmp_path / "c", commented, text)) == {"kernel.h": MANY}


def test_sources_that_one_header_may_not_lead_start_from_another(tmp_path: Path) -> None:
    files = {
        "kernel.h": "#pragma once\n#include <deep/types.h>\n#ifndef CHECK\n#endif\n" + TYPES,
        "chosen.h": "#pragma once\n#define CHECK 1\n",
        **{
            f"ops/chosen_{number}.cpp": "#include <chosen.h>\n#include <kernel.h>\n"
            for number in range(MANY)
        },
    }
    sources = library(tmp_path, files, "#include <kernel.h>\n")
    assert planned(sources) == {"kernel.h": MANY, "deep/types.h": MANY}


def test_a_string_that_looks_like_a_comment_hides_nothing(tmp_path: Path) -> None:
    first = '#pragma once\nconstexpr auto glob = "src/*";\n#define CHECK 1\n/* end */\n'
    files = {"first.h": first, "kernel.h": "#pragma once\n#ifndef CHECK\n#endif\n" + TYPES}
    sources = library(tmp_path, files, "#include <first.h>\n#include <kernel.h>\n")
    assert sources.file(tmp_path / "first.h").macros == {"CHECK"}
    assert "kernel.h" not in planned(sources)


def test_hostile_sources_are_the_compilers_business(tmp_path: Path) -> None:
    files = {
        "round.h": "#include <round.h>\n#include <kernel.h>\n",
        "folder.h/inside.h": "",
        "open.h": "/* never closed\n#include <kernel.h>\n",
        "many.h": "#endif\n" * 9 + "#include\n#include <>\n#include MACRO\n#include <../../x.h>\n",
    }
    text = "#include <folder.h>\n#include <missing.h>\n#include <round.h>\n#include <many.h>\n"
    sources = library(tmp_path, files, text)
    (tmp_path / "ops" / "bytes.cpp").write_bytes(b"\xff\x00#include <kernel.h>\n\x80")
    assert planned(Sources(tmp_path)) == {"round.h": MANY}
    assert sources.weight(tmp_path / "open.h") > 0


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("#include <kernel.h>\n", True),
        ("// words\n\n#pragma once\n#include <kernel.h>\n", True),
        ("#ifndef G\n#define G\n#include <kernel.h>\n#endif\n", True),
        ("#ifndef G\n#define OTHER\n#include <kernel.h>\n#endif\n", False),
        ("#ifdef G\n#include <kernel.h>\n#endif\n", False),
        ("#include <cstring>\n#include <kernel.h>\n", False),
        ("#include <self.h>\n#include <kernel.h>\n", False),
        ("", False),
    ],
)
def test_what_a_file_begins_with(tmp_path: Path, text: str, begins: bool) -> None:
    sources = library(tmp_path, {"self.h": text, "over.h": "#include <self.h>\n"}, "")
    for name in ("self.h", "over.h"):
        assert sources.begins_with(tmp_path / name, tmp_path / "kernel.h") == begins
    assert sources.begins_with(tmp_path / "kernel.h", tmp_path / "kernel.h")


def test_an_empty_library(tmp_path: Path) -> None:
    assert plan(Sources(tmp_path)) == {}
