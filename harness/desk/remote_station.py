"""A board whose Linux side flashes and resets its microcontroller: a Uno Q, or its stand-in.

Nothing here knows which of the two it is.  What the board runs is asked of the board itself: every
build has its nonce at a known address of flash, and the debugger on the board reads it.  So an
upload tool's exit code decides nothing, and a firmware that is already there is not written again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.elf import last_bytes
from harness.arduino.port import BoardAbsent, Port
from harness.arduino.upload import upload, upload_command
from harness.backdoor.adb_errors import AdbError, AdbNoDevice, AdbNotFound, AdbOffline
from harness.backdoor.back_door import BackDoor
from harness.backdoor.openocd import OpenOcdFailed
from harness.backdoor.reset import reset_board
from harness.backdoor.witness import BackDoorWitness
from harness.boards.board import ResetMethod
from harness.clock import Deadline, pause
from harness.desk.station import Station
from harness.emulator.client import PluggedBoard
from harness.errors import BenchError, DeviceError, HilError, ToolError, WorldError

SERIAL_NUMBER = "upload.port.properties.serialNumber"
"""Passed to the upload tool by name: a discovery that misses the port would leave it unexpanded,
and adb would be given ``{upload.port.properties.serialNumber}`` for a serial number."""

UPLOAD_CLOSING_S = 120.0

BOOT_S = 60.0
"""Seconds a Linux side may take to boot: about half a minute on a Uno Q."""

LOOK_S = 0.5
"""Between two looks at a Linux side that boots."""

TAIL_BYTES = 32
"""How much of an image's end is compared where an upload may have been cut off."""


class StationWitness(BackDoorWitness):
    """The back door's view; ``plugged`` is the stand-in's own process, which may die, too."""

    def __init__(
        self, back_door: BackDoor, elf: Callable[[], Path | None], plugged: PluggedBoard | None
    ) -> None:
        super().__init__(back_door, elf)
        self._plugged = plugged

    def require_alive(self) -> None:
        """Raise when what plays a stand-in's chip has died; a real board is not asked."""
        if self._plugged is not None:
            self._plugged.status().check_alive(self._plugged.serial_number)


@dataclass
class RemoteStation(Station):
    """``find`` finds the board's port again, wherever it is now; ``reopen`` opens it.

    ``distrusted``: what is on the board may be half written, so it is written anew in any case.
    """

    back_door: BackDoor
    find: Callable[[], Port]
    reopen: Callable[[Port], None]
    power: Callable[[], None] | None
    given_back: ExitStack
    distrusted: bool = False
    _router_seen: bool = field(default=False, init=False)

    def flash(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Have the board run ``firmware``, written only if it is not there already.

        A fault on the way is tried again by the board's reset methods, each counted in
        ``retries``.  Raises :class:`DeviceError` or :class:`ToolError` when none helps.
        """
        self.running, self.flashed = None, firmware
        self.require_port()
        self._await_linux_side()
        if not self.distrusted and self._start_if_there(firmware):
            self.progress(f"{firmware.sketch!r} is on the board already: reset, not written again")
        else:
            # Until it is all there: whoever ends in the middle leaves a piece of it.
            self.distrusted = True
            try:
                self._write(cli, firmware)
            except WorldError as fault:
                self._recover(cli, firmware, fault)
        self.distrusted = False
        self.running = firmware

    def require_port(self) -> None:
        """See that the port is open, under whatever name the board has it now."""
        if not self.session.ended:
            return
        before = self.port.address
        self.port = self.find()
        self.reopen(self.port)
        self._remark(f"the port {before!r} vanished; the board came back at {self.port.address!r}")

    def _await_linux_side(self, *away: type[AdbError]) -> None:
        """See that adb reaches the board and, once a run, that its router runs.

        A Linux side that boots is waited for, and with ``away`` one that these errors stand for as
        well.  Raises what :meth:`BackDoor.check` does for every other state.
        """
        deadline = Deadline.after(BOOT_S)
        waited_for: tuple[type[AdbError], ...] = (AdbOffline, *away)
        booting = False
        while True:
            try:
                self.back_door.check()
                if self._router_seen or self.back_door.router() == "active":
                    break
                state = self.back_door.linux_state()
                if state.router_active:
                    break
                if not state.booting or deadline.expired:
                    self._remark(
                        f"the router on the Linux side of board {self.port.serial_number!r} is"
                        f" {state.router_text or 'unknown'!r}: nothing may pass between chip and"
                        " USB"
                    )
                    break
            except waited_for:
                if deadline.expired:
                    raise
            if not booting:
                booting = True
                self.progress(
                    f"waiting for the Linux side of board {self.port.serial_number!r} to boot,"
                    f" {BOOT_S:g} s at most"
                )
            pause(min(LOOK_S, deadline.remaining_s))
        self._router_seen = True
        if booting:
            waited_s = BOOT_S - deadline.remaining_s
            self._remark(
                f"the Linux side of board {self.port.serial_number!r} was still booting:"
                f" waited {waited_s:.0f} s for it"
            )

    def _start_if_there(self, firmware: Firmware) -> bool:
        """Start the board anew if it has this very build; whether it has."""
        try:
            found = self._on_board(firmware)
        except OpenOcdFailed:
            return False  # A chip that cannot be read now has to be written; that tells more.
        if found != firmware.nonce:
            return False
        self._start_anew()
        return True

    def _on_board(self, firmware: Firmware) -> str:
        """What stands in the board's flash where this build keeps its nonce."""
        address = _nonce_address(firmware)
        return _text(self.back_door.read_memory(address, len(firmware.nonce)))

    def _has_all(self, firmware: Firmware) -> bool:
        """Whether the board has this build to its end: flash is written from its beginning on."""
        if self._on_board(firmware) != firmware.nonce:
            return False
        address, wanted = last_bytes(firmware.symbols or firmware.elf, TAIL_BYTES)
        return not wanted or self.back_door.read_memory(address, len(wanted)) == wanted

    def _write(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Upload, then ask the board what it runs: the upload tool is wrong both ways."""
        told: ToolError | None = None
        address, properties = self.port.address, {SERIAL_NUMBER: self.port.serial_number}
        argv = upload_command(cli, self.board, firmware, address=address, properties=properties)
        try:
            call = upload(cli, self.board, firmware, address=address, properties=properties)
            call.finish(Deadline.after(UPLOAD_CLOSING_S))
        except ToolError as error:
            told = error
        failed = None if told is None else told.message
        self.session.mark("call", argv=list(argv), firmware=firmware.key, failed=failed)
        self.require_port()
        nonce_address = _nonce_address(firmware)
        # From here on: the previous firmware's last lines have long arrived, since the core stood
        # still while its flash was written.
        self.session.skip_received()
        found = _text(self.back_door.read_and_reset(nonce_address, len(firmware.nonce)))
        if told is None and found == firmware.nonce:
            return
        if told is not None:
            if found != firmware.nonce or not self._has_all(firmware):
                raise told
            self._remark(f"{told.message}; but the board has the new firmware, to its end")
            return
        raise DeviceError(
            f"the upload tool reported success, but the board does not run {firmware.sketch!r}",
            remedy="upload again; if it repeats, look at the output of the upload tool",
            evidence=(f"nonce on the board: {found!r}", f"nonce uploaded:     {firmware.nonce!r}"),
        )

    def _recover(self, cli: ArduinoCli, firmware: Firmware, fault: WorldError) -> None:
        """Try again by the board's reset methods; ``fault`` is raised when none of them helps."""
        gone = isinstance(fault, BoardAbsent)
        if gone and self.power is None:
            raise fault
        self._retry(f"flashing {firmware.sketch!r}: {fault.message}")
        attempts: dict[ResetMethod, Callable[[], None]] = {
            ResetMethod.OPENOCD: self.back_door.reset,
            ResetMethod.UPLOAD: lambda: self._write(cli, firmware),
            ResetMethod.POWER: lambda: self._power_and_write(cli, firmware),
        }
        try:
            if not gone:
                self.require_port()
            done = reset_board(
                (ResetMethod.POWER,) if gone else self.board.reset_methods,
                {key: each for key, each in attempts.items() if self._can(key)},
                lambda: self._has_all(firmware),
                board=self.board.name,
            )
        except HilError as error:
            # The first fault is the cause; what was tried since is evidence.
            fault.evidence = (*fault.evidence, error.message, *error.evidence)
            raise fault from error
        self.retries[-1] = "; ".join((self.retries[-1], *map(str, done.attempts)))
        self._start_anew()

    def _can(self, method: ResetMethod) -> bool:
        return method is not ResetMethod.POWER or self.power is not None

    def _power_and_write(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Switch the board's power, wait until its Linux side is back, and see to the firmware."""
        assert self.power is not None
        self.power()
        self._router_seen = False
        self._await_linux_side(AdbNoDevice, AdbNotFound)
        self.require_port()
        if not self._has_all(firmware):
            self._write(cli, firmware)

    def reset(self) -> None:
        """Reset the microcontroller through the board's own debugger; USB stays as it is."""
        self._start_anew()
        self.session.mark("reset")

    def _start_anew(self) -> None:
        self.session.skip_received()
        self.back_door.reset()

    def require_alive(self) -> None:
        """Raise what :meth:`BackDoor.check` does, where the way to the board is broken."""
        self.back_door.check()

    def _retry(self, line: str) -> None:
        self.retries.append(line)
        self.progress(f"fault, trying again: {line}")

    def _remark(self, line: str) -> None:
        self.remarks.append(line)
        self.progress(line)

    def close(self) -> None:
        """Free the port, the board's lock, and the stand-in if this run plugged it in."""
        with self.given_back:
            self.session.close()


def _nonce_address(firmware: Firmware) -> int:
    if firmware.nonce_address is None:
        raise BenchError(
            f"the firmware of {firmware.sketch!r} has no build nonce, so the board cannot be asked"
            " whether it runs it",
            remedy="clear the cache's firmware folder and run again",
        )
    return firmware.nonce_address


def _text(raw: bytes) -> str:
    return raw.decode("ascii", "backslashreplace")
