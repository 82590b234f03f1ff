"""A real board seen from behind, for a session that waits for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.autopsy.story import crash_of
from harness.autopsy.symbols import load_symbols
from harness.backdoor.back_door import BackDoor
from harness.errors import HilError
from harness.serial.witness import Crash


class BackDoorWitness:
    """What a session asks about the board at the other end of its port, through adb.

    ``elf`` gives the file of what should run: it names addresses and has the expected nonce.
    """

    def __init__(self, back_door: BackDoor, elf: Callable[[], Path | None]) -> None:
        self._back_door = back_door
        self._elf = elf

    def require_alive(self) -> None:
        """Nothing: a look stops the core, so a waiting session must not look every second."""

    def crash(self) -> Crash | None:
        """The crash of the core; None where it did not, and where nothing can be seen."""
        # This only ever explains another error: it must not hide that one by failing itself.
        with suppress(HilError):
            return crash_of(self._back_door.examine(), load_symbols(self._elf()))
        return None

    def account(self) -> tuple[str, ...]:
        """All that can be asked of a board that went silent; never raises."""
        try:
            return self._back_door.describe_silence(self._elf())
        except HilError as error:
            return (f"the board could not be asked: {error.message}",)
