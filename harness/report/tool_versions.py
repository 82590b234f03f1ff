"""Versions of the programs that a run's figures depend on.

Asking a program costs a process, so what it answered is remembered for as long as its file stays
the same.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

from harness.boards.board import Lane
from harness.errors import HilError
from harness.machine import tool
from harness.machine.requirement import CROSS_CXX, HOST_CXX, QEMU, Requirement
from harness.paths import cache_dir
from harness.storage.atomic_file import write_atomically

_OF_LANE: dict[str, tuple[Requirement, ...]] = {
    Lane.HOST.value: (HOST_CXX,),
    Lane.EMULATED.value: (CROSS_CXX, QEMU),
    Lane.HARDWARE.value: (),
}
"""What a lane needs besides arduino-cli; a board core of someone else's brings its compiler."""


def tool_versions(lane: str) -> dict[str, dict[str, str]]:
    """Path and version of each program of ``lane`` that is found; nothing is ever raised."""
    memory = cache_dir() / "digest" / "tools.json"
    known = _read(memory)
    found: dict[str, dict[str, str]] = {}
    candidates: list[tuple[str, Path | None, Requirement | None]] = [
        ("arduino-cli", _on_path("arduino-cli") or tool.built_arduino_cli(), None),
        *((each.program, _on_path(each.program), each) for each in _OF_LANE.get(lane, ())),
    ]
    for program, path, requirement in candidates:
        if path is None:
            continue
        with suppress(OSError, HilError):
            facts = path.resolve().stat()
            key = f"{path} {facts.st_size} {facts.st_mtime_ns}"
            if key not in known:
                seen = tool.arduino_cli() if requirement is None else tool.find(requirement)
                known[key] = seen.version
                path = seen.path
            found[program] = {"path": str(path), "version": known[key]}
    with suppress(OSError):
        write_atomically(memory, json.dumps(known).encode())
    return found


def _on_path(program: str) -> Path | None:
    found = shutil.which(program)
    return None if found is None else Path(found)


def _read(memory: Path) -> dict[str, str]:
    try:
        held = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(held, dict):
        return {}
    return {key: value for key, value in held.items() if isinstance(value, str)}
