"""A look into a silent emulated board: registers, fault registers, the stacked frame.

QEMU's QMP socket gives them without a debugger.  The chip stands still for the look and goes on
afterwards.
"""

from __future__ import annotations

import io
import json
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.emulator.client import PluggedBoard
from harness.errors import DeviceError, UsageError

TIMEOUT_S = 5.0
MOST_BYTES = 65536
PIECE_BYTES = 1024

FAULT_REGISTERS = 0xE000ED28
"""CFSR, HFSR, DFSR, MMFAR, BFAR, one word each (Armv7-M and Armv8-M reference manuals)."""

FRAME = ("r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr")

STACK_WORDS = 40
THUMB = 1 << 24

CFSR_BITS: Mapping[int, str] = {
    0: "instruction access violation",
    1: "data access violation",
    3: "memory fault on exception return",
    4: "memory fault on exception entry",
    7: "memory fault address valid",
    8: "instruction bus error",
    9: "precise data bus error",
    10: "imprecise data bus error",
    11: "bus fault on exception return",
    12: "bus fault on exception entry",
    15: "bus fault address valid",
    16: "undefined instruction",
    17: "invalid state",
    18: "invalid program counter on return",
    19: "no coprocessor",
    20: "stack overflow",
    24: "unaligned access",
    25: "division by zero",
}
"""Bits of the Configurable Fault Status Register (Armv8-M reference manual, D1.2.15)."""


@dataclass(frozen=True)
class Autopsy:
    """A chip at one moment.  ``frame`` is what the stack held if a fault handler runs, else None.

    Registers are 32-bit values by lower-case name (``r0`` to ``r15``, ``xpsr``).
    """

    registers: Mapping[str, int]
    cfsr: int
    hfsr: int
    fault_address: int | None
    frame: Mapping[str, int] | None

    @property
    def faults(self) -> tuple[str, ...]:
        """The fault bits that are set, in words."""
        named = [text for bit, text in CFSR_BITS.items() if self.cfsr >> bit & 1]
        return (*named, *(["forced hard fault"] if self.hfsr >> 30 & 1 else []))

    @property
    def pc(self) -> int:
        """Where the sketch stood: the faulting instruction if it faulted."""
        return self.frame["pc"] if self.frame is not None else self.registers["r15"]


def examine(board: PluggedBoard) -> Autopsy:
    """Stop the chip, look, and let it go on.

    Raises :class:`ToolError` for a board with nothing to look into, :class:`DeviceError` when QEMU
    does not answer.
    """
    with _stopped(board) as monitor:
        registers = parse_registers(monitor.command("info registers"))
        cfsr, hfsr, _, mmfar, bfar = monitor.words(FAULT_REGISTERS, 5)
        frame = None
        # IPSR: exception 3 to 6 are the faults.
        if 3 <= registers["xpsr"] & 0x1FF <= 6:
            frame = find_frame(monitor.words(registers["r13"], STACK_WORDS))
    address = bfar if cfsr >> 15 & 1 else mmfar if cfsr >> 7 & 1 else None
    return Autopsy(registers, cfsr, hfsr, address, frame)


def memory(board: PluggedBoard, address: int, nbytes: int) -> bytes:
    """``nbytes`` of the chip's memory, as its core sees it.  Raises as :func:`examine`."""
    if not 0 <= address <= address + nbytes <= 1 << 32 or not 0 <= nbytes <= MOST_BYTES:
        raise UsageError(
            f"{nbytes} bytes at {address:#x} cannot be read",
            remedy=f"ask for at most {MOST_BYTES} bytes within 32 bits of address",
        )
    with _stopped(board) as monitor:
        return b"".join(
            monitor.read(at, min(PIECE_BYTES, address + nbytes - at))
            for at in range(address, address + nbytes, PIECE_BYTES)
        )


def find_frame(stack: Sequence[int]) -> Mapping[str, int] | None:
    """The exception frame nearest the top of ``stack``; a handler may have pushed above it."""
    for at in range(len(stack) - len(FRAME) + 1):
        frame = dict(zip(FRAME, stack[at : at + len(FRAME)], strict=True))
        # Thread mode in Thumb state: bit 24 set, no exception number.
        if frame["xpsr"] & 0x010001FF == THUMB and not frame["pc"] & 1 and frame["pc"]:
            return frame
    return None


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


class _Monitor:
    """QEMU's QMP socket, one command at a time."""

    def __init__(self, stream: io.BufferedRWPair) -> None:
        self._stream = stream
        self._reply("QMP")
        self.ask("qmp_capabilities")

    def ask(self, execute: str, **arguments: object) -> object:
        request = {"execute": execute, "arguments": arguments}
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()
        return self._reply("return")

    def command(self, line: str) -> str:
        return str(self.ask("human-monitor-command", **{"command-line": line}))

    def words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.read(address, 4 * count))

    def read(self, address: int, nbytes: int) -> bytes:
        size, form = (4, "w") if nbytes % 4 == 0 and address % 4 == 0 else (1, "b")
        text = self.command(f"x /{nbytes // size}{form}x {address:#x}")
        values = re.findall(r"0x([0-9a-f]+)(?=\s|$)", text)
        data = b"".join(int(value, 16).to_bytes(size, "little") for value in values)
        if len(data) != nbytes:
            raise DeviceError(
                f"the chip has no memory at {address:#x}",
                remedy="ask for an address inside its flash, RAM or registers",
                evidence=tuple(text.splitlines()[:4]),
            )
        return data

    def _reply(self, key: str) -> object:
        while line := self._stream.readline():
            message = json.loads(line)
            if key in message:
                return message[key]
            if "error" in message:
                raise OSError(str(message["error"]))
        raise OSError("the connection was closed")


@contextmanager
def _stopped(board: PluggedBoard) -> Iterator[_Monitor]:
    path = board.inspect()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT_S)
        try:
            client.connect(str(path))
            with client.makefile("rwb") as stream:
                monitor = _Monitor(stream)
                monitor.ask("stop")
                try:
                    yield monitor
                finally:
                    monitor.ask("cont")
        except (OSError, ValueError) as error:
            raise DeviceError(
                f"the chip of board {board.serial_number!r} cannot be looked into: {error}",
                remedy="reset the board and try again",
            ) from error
