"""Which sketches start from the runtime's precompiled header, and how they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import process
from harness.arduino.cli import ArduinoCli
from harness.arduino.sketch_pch import prepare, properties
from harness.boards.board import find_board

COMPILER = '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo made >"$2"; shift; done\n'


@pytest.fixture
def library(tmp_path: Path) -> Path:
    src = tmp_path / "library" / "src"
    src.mkdir(parents=True)
    (src / "ExecuTorch.h").write_text("#pragma once\n", encoding="utf-8")
    model = "/* a model */\n#pragma once\n\n#include <ExecuTorch.h>\n#include <optional>\n"
    (src / "ETModel.h").write_text(model, encoding="utf-8")
    (src / "Other.h").write_text("#pragma once\n#include <vector>\n#include <ExecuTorch.h>\n")
    return src.parent


def told(tmp_path: Path, library: Path, text: str) -> dict[str, str]:
    sketch = tmp_path / "staged" / "says"
    sketch.mkdir(parents=True, exist_ok=True)
    (sketch / "says.ino").write_text(text, encoding="utf-8")
    (tmp_path / "pch").mkdir(exist_ok=True)
    return properties(tmp_path / "pch" / "key", sketch, library)


@pytest.mark.parametrize(
    "text",
    [
        "#include <ExecuTorch.h>\n",
        '// words\n/* and\n more */\n\n#  include "ExecuTorch.h"\nint x;\n',
        "#include <ETModel.h>\n#include <cstring>\n",
    ],
)
def test_a_sketch_that_begins_with_it_is_told(tmp_path: Path, library: Path, text: str) -> None:
    script = tmp_path / "pch" / "key.compile.sh"
    assert told(tmp_path, library, text) == {"compiler.wrapper": f'sh "{script}" "{{source_file}}"'}
    assert f"header={tmp_path}/pch/key/leading.h" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "int x;\n#include <ExecuTorch.h>\n",
        "#define MODE 1\n#include <ExecuTorch.h>\n",
        "#ifdef A\n#include <ExecuTorch.h>\n#endif\n",
        "#include <cstring>\n#include <ExecuTorch.h>\n",
        "#include <Other.h>\n",
        "#include <missing.h>\n#include <ExecuTorch.h>\n",
        # arduino-cli puts no Arduino.h before a sketch that has it anywhere.
        "#include <ExecuTorch.h>\n#include <Arduino.h>\n",
        '#include "Arduino.h"\n#include <ExecuTorch.h>\n',
        "// #include <ExecuTorch.h>\nint x;\n",
    ],
)
def test_any_other_is_compiled_as_ever(tmp_path: Path, library: Path, text: str) -> None:
    assert told(tmp_path, library, text) == {}
    assert not list((tmp_path / "pch").iterdir())


def test_only_the_sketchs_own_file_gets_the_header(tmp_path: Path, library: Path) -> None:
    told(tmp_path, library, "#include <ExecuTorch.h>\n")
    folder = tmp_path / "pch" / "key"
    folder.mkdir()
    (folder / "leading.h.gch").touch()
    script = str(tmp_path / "pch" / "key.compile.sh")
    main = "/b/out/sketch/says.ino.cpp"
    for source, leads in (
        (main, True),
        ("/b/out/sketch/more.cpp", False),
        ("/platform/cores/hil/main.cpp", False),
        ("/libraries/L/src/a.cpp", False),
    ):
        done = process.run(("sh", script, source, "echo", "-c", source), timeout_s=10)
        assert ("-include" in done.stderr + done.stdout) == leads, source


def fake_cli(tmp_path: Path, recipe: str) -> ArduinoCli:
    """An arduino-cli that shows a recipe, and a compiler."""
    compiler = tmp_path / "c++"
    compiler.write_text(COMPILER, encoding="utf-8")
    compiler.chmod(0o755)
    script = tmp_path / "arduino-cli"
    script.write_text(
        f"#!/bin/sh\ncat <<'END'\nbuild.core.path=/core\nbuild.variant.path=/variant\n"
        f"recipe.cpp.o.pattern={recipe.replace('CXX', str(compiler))}\nEND\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return ArduinoCli(script, tmp_path / "config", tmp_path / "home")


RECIPE = '"CXX" -Os -DA="b c" {includes} "{source_file}" -o "{object_file}"'


@pytest.mark.parametrize(
    ("recipe", "made"),
    [
        (RECIPE, True),
        (RECIPE.replace("CXX", "false"), False),
        ('"CXX" -Os "{source_file}" -o "{object_file}"', False),
        ('"CXX', False),
    ],
)
def test_where_it_cannot_be_made_there_is_none(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, made: bool
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    cli = fake_cli(tmp_path, recipe)
    folder = prepare(cli, find_board("m33"), library, "key", {})
    assert folder is not None
    assert (folder / "leading.h.gch").is_file() == made
    assert prepare(cli, find_board("m33"), library, "key", {}) == folder
    assert prepare(cli, find_board("m33"), library, "another", {}) != folder


def test_a_core_of_someone_elses_and_a_library_without_it_have_none(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    cli = fake_cli(tmp_path, RECIPE)
    assert prepare(cli, find_board("unoq"), library, "key", {}) is None
    (library / "src" / "ExecuTorch.h").unlink()
    assert prepare(cli, find_board("m33"), library, "key", {}) is None
    assert not (tmp_path / "cache").exists()
