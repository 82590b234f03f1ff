"""A virtual board seen from behind: whether its chip still runs, and whether its core crashed."""

from __future__ import annotations

from contextlib import suppress

from harness.emulator.autopsy import Autopsy, examine
from harness.emulator.client import PluggedBoard
from harness.errors import HilError
from harness.serial.witness import Crash

_REGISTERS = ("r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr")


class BoardWitness:
    """What a session asks about the virtual board at the other end of its port."""

    def __init__(self, board: PluggedBoard) -> None:
        self._board = board

    def require_alive(self) -> None:
        """Raise what :meth:`harness.emulator.reply.BoardStatus.check_alive` does."""
        self._board.status().check_alive(self._board.serial_number)

    def crash(self) -> Crash | None:
        """The crash of an emulated core; None for a native board, and where nothing can be seen."""
        # This only ever explains another error: it must not hide that one by failing itself.
        with suppress(HilError):
            status = self._board.status()
            if status.emulated and status.ending is None:
                return crash_of(examine(self._board))
        return None


def crash_of(seen: Autopsy) -> Crash | None:
    """What the registers say, when they are those of a core in a fault handler."""
    if seen.frame is None:
        return None
    why = ", ".join(seen.faults) or "fault without a reason in CFSR"
    where = f" at pc {seen.pc:#010x}, lr {seen.frame['lr']:#010x}"
    address = f", address {seen.fault_address:#010x}" if seen.fault_address is not None else ""
    stacked = " ".join(f"{name}={seen.frame[name]:#010x}" for name in _REGISTERS)
    return Crash(
        f"{why}{where}{address}",
        (f"CFSR={seen.cfsr:#010x} HFSR={seen.hfsr:#010x}", f"stacked: {stacked}"),
    )
