"""What makes a plugged-in board a stand-in for one with a Linux side: its route, adb and port.

It cannot show time on silicon, the router's real timing, Zephyr, USB enumeration or power.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from harness.boards.board import LinuxSide as LinuxSideData
from harness.clock import monotonic_s
from harness.emulator.behaviour import Behaviour, Port, Turns, When
from harness.emulator.control import Reply, refusal
from harness.emulator.flash_model import Flash
from harness.emulator.line import Line
from harness.emulator.linux_side import LinuxSide
from harness.emulator.openocd_model import Chip
from harness.emulator.pty import PtyPort
from harness.emulator.real_route import RealRouter
from harness.emulator.route import Route, Router

FILES = "linux"
"""Name of the Linux side's file area in the board's folder."""


class Publish(Protocol):
    """Tells others what the board is now: its address, its number, whether its port is there."""

    def __call__(self, **changes: str | bool) -> None:
        """Change these fields of ``board.json``."""


class StandIn:
    """The Linux side's part of one plugged-in board.

    ``forget`` is told of a descriptor before it is closed.  ``router``: the program of the real
    arduino-router, which runs in the place of the model for a board that behaves.
    """

    def __init__(
        self,
        data: LinuxSideData,
        chip: Chip,
        line: Line,
        folder: Path,
        *,
        behaviour: Behaviour,
        publish: Publish,
        forget: Callable[[int], None],
        router: Path | None = None,
    ) -> None:
        turns = Turns()
        self.flash = Flash()
        self._linux = LinuxSide(data, chip, self.flash, folder / FILES, behaviour, turns)
        self.route: Route
        if router is not None and behaviour == Behaviour():
            self.route = RealRouter(line, folder, router, forget)
        else:
            self.route = Router(line, behaviour, turns, up_at_s=self._linux.router_up_at_s)
        self._line = line
        self._folder = folder
        self._behaviour = behaviour
        self._turns = turns
        self._publish = publish
        self._forget = forget
        self._plugged_at_s = monotonic_s()
        self._ports = 1
        self._happened: list[Port] = []

    def adb(self, argv: object) -> Reply | None:
        """What ``adb -s SN`` with these words does; None where it never ends."""
        if not isinstance(argv, list) or not argv or not all(isinstance(x, str) for x in argv):
            return refusal(f"'argv' is {argv!r}", "give a list of words, not empty")
        (self._folder / FILES / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        uploads = self.flash.uploads
        answer = self._linux.run(argv)
        if self.flash.uploads != uploads:
            self.route.uploaded()
            self._port_faults(When.UPLOAD)
        return None if answer is None else answer.reply()

    def adb_state(self) -> Reply:
        """What ``adb devices`` shows, as a word; ``device`` is a board like any other."""
        state = self._linux.state()
        return {"ok": True, "state": state.value if state is not None else "device"}

    def settle(self, now_s: float) -> None:
        """Let happen what is due by the clock."""
        self._port_faults(When.TIME, age_ms=(now_s - self._plugged_at_s) * 1000)

    def _port_faults(self, when: When, *, age_ms: float = 0) -> None:
        behaviour = self._behaviour
        if self._happens(behaviour.port_renumbered, when, age_ms):
            self._renumber()
        if self._happens(behaviour.port_gone, when, age_ms):
            self._unplug_cable()
        if self._happens(behaviour.port_denied, when, age_ms):
            # Root opens it all the same: for root there is nothing that refuses.
            os.chmod(self._line.port.slave_path, 0)  # noqa: PTH101  # A device, not a folder's file.
        other = behaviour.another_board
        if other is not None and self._happens(other, when, age_ms):
            self._publish(serial_number=other.serial_number)

    def _happens(self, fault: Port | None, when: When, age_ms: float) -> bool:
        """Whether it is time: each once by the clock, at each upload while it has turns."""
        if fault is None or fault.when is not when or age_ms < fault.after_ms:
            return False
        if when is When.TIME:
            if fault in self._happened:
                return False
            self._happened.append(fault)
        return self._turns.take(fault)

    def _renumber(self) -> None:
        self._ports += 1
        link = self._folder / f"tty{self._ports}"
        self._change_port(link)
        self._publish(address=str(link))

    def _unplug_cable(self) -> None:
        self._linux.unplugged = True
        # The owner goes on with a port that nobody can find.
        self._change_port(self._folder / ".no-tty")
        self._publish(port_present=False)

    def _change_port(self, link: Path) -> None:
        fresh = PtyPort.open(link)
        old = self._line.port
        self._forget(old.fd)
        self._line.port = fresh
        old.link.unlink(missing_ok=True)
        old.close()
