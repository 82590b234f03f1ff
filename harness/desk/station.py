"""One board with its port held open, from before the first upload to the end of the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.port import Port
from harness.boards.board import Board
from harness.serial.session import Session


@dataclass
class Station(ABC):
    """A board as a run sees it.

    ``running`` is the firmware it is known to run, if any; ``flashed`` the last one that was sent
    to it, whatever has become of it since.

    ``retries`` has one line for each thing that had to be done again because of a fault, and
    ``remarks`` what was odd and did no harm; a run that needed either says so.
    """

    board: Board
    port: Port
    session: Session
    progress: Callable[[str], None]
    running: Firmware | None = field(default=None, init=False)
    flashed: Firmware | None = field(default=None, init=False)
    retries: list[str] = field(default_factory=list, init=False)
    remarks: list[str] = field(default_factory=list, init=False)

    @abstractmethod
    def flash(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Have the board run ``firmware`` from its start; what it said before is not believed."""

    @abstractmethod
    def reset(self) -> None:
        """Start the board's firmware again without touching its port."""

    @abstractmethod
    def require_alive(self) -> None:
        """Raise where what plays the board, or the way to it, has died."""

    @abstractmethod
    def close(self) -> None:
        """Give the board and its port back."""
