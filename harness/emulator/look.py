"""A look into a silent emulated board: registers, fault registers, the stacked frame.

QEMU's QMP socket gives them without a debugger.  The chip stands still for the look and goes on
afterwards.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.autopsy.chip import (
    FAULT_REGISTERS,
    FAULT_WORDS,
    FRAME,
    STACK_WORDS,
    Autopsy,
    decode,
    stack_pointers,
)
from harness.autopsy.story import story
from harness.autopsy.symbols import load_symbols
from harness.emulator import qmp
from harness.emulator.client import PluggedBoard
from harness.errors import DeviceError, UsageError

MOST_BYTES = 65536

FIRMWARE = "firmware.elf"
"""What a board's folder keeps of the firmware it runs."""


def examine(board: PluggedBoard) -> Autopsy:
    """Stop the chip, look, and let it go on.

    Raises :class:`ToolError` for a board with nothing to look into, :class:`DeviceError` when QEMU
    does not answer.
    """
    with _stopped(board) as monitor:
        registers = parse_registers(monitor.command("info registers"))
        faults = _words(monitor, FAULT_REGISTERS, FAULT_WORDS)
        stacks = {each: _stack(monitor, each) for each in stack_pointers(registers)}
    return decode(registers, faults, stacks)


def flashed_elf(board: PluggedBoard) -> Path | None:
    """The board's own copy of the firmware that it runs, where it has one."""
    path = Path(board.record.control).parent / FIRMWARE
    return path if path.is_file() else None


def story_of_plugged(board: PluggedBoard, elf: Path | None = None) -> tuple[str, ...]:
    """Where the emulated core stands and why, in evidence lines.

    ``elf`` names addresses; without it the firmware that the board runs.  Raises as
    :func:`examine`.
    """
    seen = examine(board)
    return story(seen, load_symbols(elf or flashed_elf(board)))


def memory(board: PluggedBoard, address: int, nbytes: int) -> bytes:
    """``nbytes`` of the chip's memory, as its core sees it.  Raises as :func:`examine`."""
    if not 0 <= address <= address + nbytes <= 1 << 32 or not 0 <= nbytes <= MOST_BYTES:
        raise UsageError(
            f"{nbytes} bytes at {address:#x} cannot be read",
            remedy=f"ask for at most {MOST_BYTES} bytes within 32 bits of address",
        )
    with _stopped(board) as monitor:
        return monitor.read(address, nbytes)


def parse_registers(text: str) -> dict[str, int]:
    """The general registers of ``info registers``, by lower-case name.

    Raises :class:`DeviceError` when the text has none.
    """
    found = {
        name.lower(): int(value, 16)
        for name, value in re.findall(r"\b(R\d\d|XPSR)=([0-9a-f]{8})\b", text)
    }
    registers = {f"r{int(name[1:])}" if name != "xpsr" else name: v for name, v in found.items()}
    if "r15" not in registers or "xpsr" not in registers:
        raise DeviceError(
            "QEMU's registers cannot be read",
            remedy="check that its version is supported with 'hil doctor'",
            evidence=tuple(text.splitlines()[:8]),
        )
    return registers


def _words(monitor: qmp.Monitor, address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", monitor.read(address, 4 * count))


def _stack(monitor: qmp.Monitor, address: int) -> tuple[int, ...]:
    """Up to :data:`STACK_WORDS` words; fewer where the memory ends, none where there is none."""
    for count in (STACK_WORDS, len(FRAME)):
        with suppress(DeviceError):
            return _words(monitor, address, count)
    return ()


@contextmanager
def _stopped(board: PluggedBoard) -> Iterator[qmp.Monitor]:
    path = board.inspect()
    try:
        with qmp.stopped(path) as monitor:
            yield monitor
    except (OSError, ValueError) as error:
        raise DeviceError(
            f"the chip of board {board.serial_number!r} cannot be looked into: {error}",
            remedy="reset the board and try again",
        ) from error
