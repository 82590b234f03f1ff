"""What a benchmark compares with: the same compilers and flags, called with nothing in between."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from benchmarks.measure import timed
from harness.errors import ToolError

JOBS = 2


@dataclass(frozen=True)
class Call:
    """One compiler call: as arduino-cli made it, and as it is made with nothing before it."""

    source: Path
    argv: tuple[str, ...]
    built: Path
    bare_object: Path


def commands(build_path: Path, sources: Path, out: Path) -> list[Call]:
    """The compiler calls that arduino-cli recorded for ``sources``, with objects in ``out``."""
    listing = json.loads((build_path / "compile_commands.json").read_text(encoding="utf-8"))
    found: list[Call] = []
    for entry in listing:
        source = Path(entry["file"])
        if sources not in source.parents and source != sources:
            continue
        argv = [str(each) for each in entry["arguments"]]
        at = argv.index("-o") + 1
        built, bare = Path(argv[at]), out / f"{len(found)}.o"
        argv[at] = str(bare)
        # The compiler stands before the first flag; what the bench puts before it is not bare.
        compiler = next(at for at, each in enumerate(argv) if each.startswith("-")) - 1
        found.append(Call(source, tuple(argv[compiler:]), built, bare))
    if not found:
        raise ToolError(
            f"{build_path} has no record of compiling {sources}",
            remedy="run the bench's own compile first",
        )
    return found


def compile_all(calls: Sequence[Call], out: Path, *, jobs: int = JOBS) -> float:
    """Seconds for these calls, ``jobs`` at a time."""
    out.mkdir(parents=True, exist_ok=True)
    listing = out / "calls"
    listing.write_bytes(b"".join(shlex.join(call.argv).encode() + b"\0" for call in calls))
    argv = ("xargs", "-0", "-a", str(listing), f"-P{jobs}", "-n1", "sh", "-c", 'eval "$0"')
    return timed(argv, os.environ)[0]


def code(built: Path) -> list[tuple[str, bytes]]:
    """What an object puts into an image: name and content of each section, sorted.

    Sorted, since a compiler that met the declarations in another order emits the functions in
    another order; and without the serial numbers that it gives to names of its own.
    """
    with built.open("rb") as stream:
        return sorted(
            (_SERIAL.sub(r"\1", section.name), section.data())
            for section in ELFFile(stream).iter_sections()
            if section["sh_flags"] & SH_FLAGS.SHF_ALLOC
        )


_SERIAL = re.compile(r"(CSWTCH|\.isra|\.part|\.constprop)\.\d+")
