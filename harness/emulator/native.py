"""How the firmware of a native board is started: it is a program of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

from harness.emulator.child import Child
from harness.emulator.firmware import ElfKind
from harness.errors import BenchError, ToolError

MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
"""ELF ``e_machine`` of the machines a native board can run on (ELF gABI)."""


def start(firmware: Path) -> Child:
    """Start the program: serial port on standard input and output.  Raises :class:`BenchError`."""
    try:
        return Child.start((str(firmware),), cwd=firmware.parent)
    except ToolError as error:
        raise BenchError(
            f"the firmware does not start: {error.message}",
            remedy="HIL_RUN_DIR must be on a file system that allows programs to run",
        ) from error


def elf_kind() -> ElfKind:
    """What a program for this machine looks like; an unknown machine fits nothing."""
    name = platform.machine()
    return ElfKind(name, bits=64, machine=MACHINES.get(name, -1), types=(2, 3))
