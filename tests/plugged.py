"""What tests of plugged-in boards share."""

from __future__ import annotations

from collections.abc import Callable

import serial

from harness.clock import Deadline, pause
from harness.emulator.client import PluggedBoard


def open_port(board: PluggedBoard) -> serial.Serial:
    """The board's port, held exclusively."""
    return serial.Serial(board.address, 115200, timeout=10, exclusive=True)


def wait_until(true: Callable[[], bool], timeout_s: float = 20) -> None:
    """Look every 10 ms until it is so; an error when it does not become so in time."""
    deadline = Deadline.after(timeout_s)
    while not true():
        assert not deadline.expired, "this did not become true in time"
        pause(0.01)
