"""A virtual board seen from behind: whether its chip still runs, and whether its core crashed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.autopsy.story import crash_of
from harness.autopsy.symbols import load_symbols
from harness.emulator.client import PluggedBoard
from harness.emulator.look import examine, flashed_elf, story_of_plugged
from harness.errors import HilError
from harness.serial.witness import Crash


class BoardWitness:
    """What a session asks about the virtual board at the other end of its port.

    ``elf`` gives the file that names the addresses of what runs, where the caller has a better one
    than the board's own copy of its firmware: an upload may leave the symbols out.
    """

    def __init__(
        self,
        board: PluggedBoard,
        elf: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self._board = board
        self._elf = elf

    def require_alive(self) -> None:
        """Raise what :meth:`harness.emulator.reply.BoardStatus.check_alive` does."""
        self._board.status().check_alive(self._board.serial_number)

    def crash(self) -> Crash | None:
        """The crash of an emulated core; None for a native board, and where nothing can be seen."""
        # This only ever explains another error: it must not hide that one by failing itself.
        with suppress(HilError):
            status = self._board.status()
            if status.emulated and status.ending is None:
                symbols = load_symbols(self._elf() or flashed_elf(self._board))
                return crash_of(examine(self._board), symbols)
        return None

    def account(self) -> tuple[str, ...]:
        """How the chip is and where its core stands; never raises."""
        try:
            status = self._board.status()
        except HilError as error:
            return (f"the board could not be asked: {error.message}",)
        sent = status.sent_bytes - status.sent_bytes_at_boot
        since = "" if status.since_boot_s is None else f", last {status.since_boot_s:.0f} s ago"
        chip = (
            f"the chip is {status.state.value}, has booted {status.boots} times{since}, and sent"
            f" {sent} bytes since"
        )
        if not status.emulated or status.pid_of_chip is None:
            return (chip,)
        try:
            return (chip, *story_of_plugged(self._board, self._elf()))
        except HilError as error:
            return (chip, f"the core could not be examined: {error.message}")
