"""Plugging virtual boards in and talking to them: what the rest of the bench uses."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import paths, process
from harness.boards.board import Board
from harness.emulator import folder as folders
from harness.emulator.control import ask
from harness.emulator.folder import PluggedRecord
from harness.emulator.reply import BoardStatus, answered, raise_refusal, read_reply
from harness.errors import BenchError, DeviceError

PLUG_IN_S = 30.0
"""Seconds an owner may take until its board is ready; 0.2 s is usual."""

ASK_S = 20.0
FLASH_S = 60.0


@dataclass(frozen=True)
class PluggedBoard:
    """A virtual board that is plugged in, by its serial number.  Methods talk to its owner."""

    record: PluggedRecord

    @property
    def board(self) -> str:
        """The kind of board: the name of its file in ``boards/``."""
        return self.record.board

    @property
    def fqbn(self) -> str:
        """Its fully qualified board name, e.g. ``hil:virtual:m33``."""
        return self.record.fqbn

    @property
    def address(self) -> str:
        """Path of its serial port; the same after every re-flash and reset."""
        return self.record.address

    @property
    def serial_number(self) -> str:
        """What tells it from other boards of its kind."""
        return self.record.serial_number

    def flash(self, elf: Path) -> str:
        """Put firmware on the board and start it; returns its SHA-256.

        Raises :class:`ToolError` when the board refuses the file, :class:`DeviceError` when it is
        gone.
        """
        reply = self._ask({"op": "flash", "elf": str(elf.absolute())}, FLASH_S)
        return str(reply.get("sha256"))

    def reset(self) -> int:
        """Start the firmware again; returns how often the board has booted since plugged in."""
        boots = self._ask({"op": "reset"}).get("boots")
        return boots if isinstance(boots, int) else 0

    def status(self) -> BoardStatus:
        """How the board is."""
        return read_reply(self._ask({"op": "status"}), self.serial_number)

    def inspect(self) -> Path:
        """Keep the chip awake for a look into it; returns the path of its QMP socket."""
        return Path(str(self._ask({"op": "inspect"}).get("qmp")))

    def unplug(self) -> None:
        """Take the board away and wait until its owner has let everything go.

        A board that is already gone is not an error.
        """
        try:
            self._ask({"op": "unplug"}, until_closed=True)
        except DeviceError:
            if self.record.owner.alive and Path(self.record.control).exists():
                raise

    def _ask(
        self, request: Mapping[str, object], timeout_s: float = ASK_S, *, until_closed: bool = False
    ) -> Mapping[str, object]:
        reply = ask(
            Path(self.record.control), request, timeout_s=timeout_s, until_closed=until_closed
        )
        return answered(reply, self.serial_number)


def plug_in(
    board: Board,
    *,
    serial_number: str | None = None,
    lease_pid: int | None = None,
    core_version: str | None = None,
    behave: Path | None = None,
) -> PluggedBoard:
    """Plug a virtual board in and return when it is ready.

    With ``lease_pid`` it unplugs itself when that process ends.  ``core_version`` is that of a
    stand-in, ``behave`` the file of its misbehaviour.  Raises :class:`UsageError` for a board,
    number, version or file that cannot be, and :class:`BenchError` when the owner does not come
    up.
    """
    argv = [sys.executable, "-m", "harness.emulator.daemon"]
    argv += ["--board-file", str(board.path.absolute())]
    if serial_number is not None:
        argv.append(f"--serial-number={serial_number}")
    if lease_pid is not None:
        argv.append(f"--lease-pid={lease_pid}")
    if core_version is not None:
        argv.append(f"--core-version={core_version}")
    if behave is not None:
        argv.append(f"--behave={behave.absolute()}")
    package_root = Path(folders.__file__).resolve().parents[2]
    search = [str(package_root), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
        "HIL_RUN_DIR": str(paths.run_dir().absolute()),
    }
    done = process.run(argv, timeout_s=PLUG_IN_S, env=env)
    reply = _last_line(done.stdout)
    if reply is None:
        raise BenchError(
            f"the owner of a new {board.name!r} did not come up",
            remedy="see the evidence; run 'hil doctor --lane emulated'",
            evidence=done.tail(),
        )
    if not reply.get("ok"):
        raise_refusal(reply)
    return find_plugged(str(reply.get("serial_number")))


def _last_line(text: str) -> Mapping[str, object] | None:
    lines = text.splitlines()
    try:
        reply = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return reply if isinstance(reply, dict) else None


def plugged_boards() -> tuple[PluggedBoard, ...]:
    """Every virtual board of this user that is plugged in, by serial number.

    What killed owners left behind is removed on the way.
    """
    return tuple(PluggedBoard(record) for record in folders.records())


def find_plugged(serial_number: str) -> PluggedBoard:
    """The board with this serial number.  Raises :class:`DeviceError` that lists those there."""
    boards = plugged_boards()
    for each in boards:
        if each.serial_number == serial_number:
            return each
    there = ", ".join(each.serial_number for each in boards) or "none"
    raise DeviceError(
        f"no board {serial_number!r} is plugged in",
        remedy=f"plug one in with 'hil emulate'; plugged in now: {there}",
    )
