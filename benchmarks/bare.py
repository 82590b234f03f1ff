"""What a benchmark compares with: the same compilers and flags, called with nothing in between."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

from benchmarks.measure import timed
from harness.errors import ToolError

JOBS = 2


def commands(build_path: Path, sources: Path, out: Path) -> list[list[str]]:
    """The compiler calls that arduino-cli recorded for ``sources``, with objects in ``out``."""
    listing = json.loads((build_path / "compile_commands.json").read_text(encoding="utf-8"))
    found: list[list[str]] = []
    for entry in listing:
        if sources not in Path(entry["file"]).parents and Path(entry["file"]) != sources:
            continue
        arguments = [str(each) for each in entry["arguments"]]
        arguments[arguments.index("-o") + 1] = str(out / f"{len(found)}.o")
        found.append(arguments)
    if not found:
        raise ToolError(
            f"{build_path} has no record of compiling {sources}",
            remedy="run the bench's own compile first",
        )
    return found


def compile_all(calls: list[list[str]], out: Path, *, jobs: int = JOBS) -> float:
    """Seconds for these calls, ``jobs`` at a time."""
    out.mkdir(parents=True, exist_ok=True)
    listing = out / "calls"
    listing.write_bytes(b"".join(shlex.join(call).encode() + b"\0" for call in calls))
    argv = ("xargs", "-0", "-a", str(listing), f"-P{jobs}", "-n1", "sh", "-c", 'eval "$0"')
    return timed(argv, os.environ)[0]
