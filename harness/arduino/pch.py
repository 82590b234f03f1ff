"""Precompiled headers for the library's sources, inside arduino-cli's own compile.

:mod:`harness.arduino.pch_plan` says which source starts from which header.  Two build properties do
the rest: a hook makes the headers before arduino-cli compiles the library, with the flags of its
own recipe, and a wrapper puts ``-include`` into the compiler calls of the sources that have one.
Where the compiler cannot make them (Clang knows no ``-fpch-deps``), or fails with one, a source
compiles as ever, so that what is said of a mistake is what anybody's compile says.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.arduino.pch_plan import Sources, plan
from harness.boards.board import Board
from harness.storage.digest import file_digest, parts_digest

_MAKE = """\
#!/bin/sh
# Makes the precompiled headers beside this script that are not there yet.  Arguments: the compiler
# and its flags.  Without them the library compiles as well, only longer: never a failure.
# Whole paths: an object's list of what it depends on names the header as it is named here.
for header in "$(dirname "$0")"/*.h; do
    [ -e "$header.gch" ] && continue
    if "$@" -fpch-deps -x c++-header "$header" -o "$header.part" 2>"$header.log"; then
        mv "$header.part" "$header.gch"
    fi &
done
wait
exit 0
"""

_WRAPPER = """\
#!/bin/sh
# Arguments: a source, and the call that compiles it.
source=$1
shift
header=
case $source in
{cases}
esac
if [ -n "$header" ] && [ -e "$header.gch" ]; then
    compiler=$1
    shift
    if said=$("$compiler" {flags}-include "$header" "$@" 2>&1); then
        [ -z "$said" ] || printf '%s\\n' "$said" >&2
        exit 0
    fi
    set -- "$compiler" "$@"
fi
# What the compiler says of a mistake is what it says without a precompiled header.  And GCC 12
# crashes on arm_mve.h after one.
exec "$@"
"""


def wrapper(headers: Mapping[str, Path], *, dependencies: bool) -> str:
    """The script that compiles a source, by its pattern, from a header of which there is a .gch.

    ``dependencies``: whether an object depends on what is inside the header as well.
    """
    cases = "\n".join(
        f"{pattern}) header={shlex.quote(str(header))} ;;" for pattern, header in headers.items()
    )
    return _WRAPPER.format(cases=cases, flags="-fpch-deps " if dependencies else "")


def compile_properties(
    board: Board, library: Path, folder: Path, depends_on: str
) -> dict[str, str]:
    """Build properties with which the library in ``library`` compiles from precompiled headers.

    They lie in ``folder``, which is made to fit: a header made from other files, or with anything
    else in ``depends_on``, is made anew, and one that still fits is kept, since every object made
    from it would be compiled again.  Empty for a core of someone else's, and for a library in which
    no header is worth it.
    """
    if not board.fqbn.startswith("hil:"):
        return {}
    root = library / "src"
    sources = Sources(root)
    planned = plan(sources)
    if not planned:
        shutil.rmtree(folder, ignore_errors=True)
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    # By what is inside: the compiler does not look whether that is still so.
    leading = {
        header: folder / f"{header.stem}-{_key(sources, header, depends_on)[:16]}.h"
        for header in planned
    }
    kept = {name for path in leading.values() for name in (path.name, f"{path.name}.gch")}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()
    for header, path in leading.items():
        _write(path, f"#include <{header.relative_to(root).as_posix()}>\n")
    by_source = {
        shlex.quote(str(source)): leading[header]
        for header, led in planned.items()
        for source in led
    }
    _write(folder / "make.sh", _MAKE)
    _write(folder / "compile.sh", wrapper(by_source, dependencies=True))
    return {
        "recipe.hooks.libraries.prebuild.1.pattern": f'sh "{folder / "make.sh"}"'
        ' "{compiler.path}{compiler.cpp.cmd}" {compiler.cpp.flags} {compiler.cpp.extra_flags}'
        f' "-I{{build.core.path}}" "-I{{build.variant.path}}" "-I{root}"',
        "compiler.wrapper": f'sh "{folder / "compile.sh"}" "{{source_file}}"',
    }


def _key(sources: Sources, header: Path, depends_on: str) -> str:
    # Of whole files, comments included: __LINE__ ends up in what the runtime logs.
    inside = (each.relative_to(sources.root) for each in sources.reached(header))
    digests = (f"{each} {file_digest(sources.root / each)}" for each in sorted(inside))
    return parts_digest(depends_on, *digests)


def _write(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
