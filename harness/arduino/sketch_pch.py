"""The runtime's header, precompiled for the sketches that begin with it.

Half of the time that a sketch takes to compile goes into ``ExecuTorch.h``.  A sketch that begins
with it, or with a header of the library that does, as upstream's examples do, starts from
``Arduino.h`` and that header precompiled: the very beginning of what arduino-cli compiles, so the
order of nothing changes.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from harness import process
from harness.arduino.cli import ArduinoCli
from harness.arduino.pch import wrapper
from harness.arduino.pch_plan import Sources
from harness.boards.board import Board
from harness.paths import sketches_dir
from harness.storage import cache
from harness.storage.digest import parts_digest

RUNTIME = "ExecuTorch.h"
_HEADER = "leading.h"
_SCRIPT = "compile.sh"
_TIMEOUT_S = 300.0

_ARDUINO = re.compile(r'^\s*#\s*include\s*[<"]Arduino\.h[>"]', re.MULTILINE)
"""As arduino-cli looks for it: a sketch in which it is found gets none at its beginning."""


def prepare(
    cli: ArduinoCli, board: Board, library: Path, key: str, flags: dict[str, str]
) -> Path | None:
    """The folder with the precompiled header for sketches that use the ``library``.

    ``key`` stands for what it depends on, the library included; ``flags`` are the build properties
    that sketches are compiled with.  None for a core of someone else's, and for a library without
    the header.  Where the compiler cannot make it the folder holds none, and sketches compile as
    ever.
    """
    if not board.fqbn.startswith("hil:") or not (library / "src" / RUNTIME).is_file():
        return None

    def make(folder: Path) -> None:
        header = folder / _HEADER
        header.write_text(f"#include <Arduino.h>\n#include <{RUNTIME}>\n", encoding="utf-8")
        call = _recipe(cli, board, flags, library, header)
        if call is None or not process.run(call, timeout_s=_TIMEOUT_S).ok:
            header.with_name(f"{_HEADER}.gch").unlink(missing_ok=True)

    key = parts_digest(key, str(library), Path(__file__).read_text(encoding="utf-8"))
    return cache.entry("pch", key, make)


def properties(folder: Path, sketch: Path, library: Path) -> dict[str, str]:
    """Build properties with which the staged ``sketch`` starts from it; empty where it may not.

    The folder's name is that of its content.  So what is inside the header cannot change under an
    object: with another one, the properties differ, and arduino-cli builds anew.
    """
    main = sketch / f"{sketch.name}.ino"
    sources = Sources(library / "src")
    text = sources.file(main).text
    if _ARDUINO.search(text) or not sources.begins_with(main, library / "src" / RUNTIME):
        return {}
    return {"compiler.wrapper": f'sh "{_script(folder)}" "{{source_file}}"'}


def _script(folder: Path) -> Path:
    """Beside the entry, since it names the entry's own place."""
    script = folder.with_suffix(f".{_SCRIPT}")
    text = wrapper({"*/sketch/*.ino.cpp": folder / _HEADER}, dependencies=False)
    if not script.is_file() or script.read_text(encoding="utf-8") != text:
        cache.write_atomically(script, text.encode())
    return script


def _recipe(
    cli: ArduinoCli, board: Board, flags: dict[str, str], library: Path, header: Path
) -> list[str] | None:
    """arduino-cli's own call of the compiler, for a header in the place of a source."""
    given = (word for item in flags.items() for word in ("--build-property", "=".join(item)))
    arguments = ("compile", "--show-properties=expanded", "--fqbn", board.fqbn, *given)
    done = cli.run((*arguments, str(sketches_dir() / "reference")), timeout_s=60)
    known = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    try:
        words = shlex.split(known["recipe.cpp.o.pattern"])
        at = words.index("{includes}")
        places = [known["build.core.path"], known["build.variant.path"], str(library / "src")]
        words[at : at + 1] = [f"-I{place}" for place in places]
        words[words.index("{source_file}")] = str(header)
        words[words.index("{object_file}")] = f"{header}.gch"
    except (KeyError, ValueError):
        return None
    source = words.index(str(header))
    return [*words[:source], "-x", "c++-header", *words[source:]]
