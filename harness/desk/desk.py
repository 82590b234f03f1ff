"""Where the one board of a run stands: found or plugged in, owned, opened, and given back.

A virtual board or a stand-in is plugged in for the run unless one was chosen by port or serial
number; it is leased to this process, so that it goes away even when the run is killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import process
from harness.arduino.cli import ArduinoCli
from harness.arduino.core_home import find_adb
from harness.arduino.port import Port, choose_port, list_ports
from harness.backdoor.adb import AdbDevice
from harness.backdoor.back_door import BackDoor
from harness.bench.find import follow
from harness.bench.inventory import BenchBoard, Inventory
from harness.bench.quarantine import counts_against_board, record_outcome
from harness.bench.take import take_board
from harness.boards.board import Board, CoreVersion, Lane
from harness.desk.remote_station import RemoteStation, StationWitness
from harness.desk.station import Station
from harness.desk.virtual_station import VirtualStation
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.emulator.witness import BoardWitness
from harness.errors import BenchError, HilError, ToolError
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.transcript import open_transcript
from harness.serial.witness import Witness

POWER_TIMEOUT_S = 120.0
"""Allowed for the command of the inventory that switches a board's power off and on."""


@dataclass(frozen=True)
class Wanted:
    """Which board a run is for: its kind, and how one of several is chosen."""

    board: Board
    core_version: CoreVersion
    virtual: bool = False
    address: str | None = None
    serial_number: str | None = None
    behave: Path | None = None


@dataclass
class Desk:
    """Where the one board of a run stands; ``folder`` receives the transcript."""

    folder: Path | None
    progress: Callable[[str], None] = lambda line: None  # noqa: ARG005
    inventory: Inventory = field(default_factory=Inventory)
    _station: Station | None = field(default=None, init=False)
    _owned: ExitStack = field(default_factory=ExitStack, init=False)
    _counted: str | None = field(default=None, init=False)
    """Serial number of a board whose faults are counted; a stand-in's only if it is listed."""

    _fault: str | None = field(default=None, init=False)
    _judged: bool = field(default=False, init=False)
    _coming: Future[PluggedBoard] | None = field(default=None, init=False)
    """The virtual board that is being plugged in ahead of :meth:`station`."""

    @property
    def current(self) -> Station | None:
        """The station, where one has been set up."""
        return self._station

    def station(self, wanted: Wanted, cli: ArduinoCli) -> Station:
        """The board's station; the first call finds or plugs in the board and opens its port."""
        if self._station is None:
            if wanted.board.lane is Lane.HARDWARE:
                self._station = self._remote(wanted, cli)
            else:
                self._station = self._virtual(wanted)
        return self._station

    def expect(self, wanted: Wanted) -> None:
        """Begin to plug in the virtual board that :meth:`station` will be asked for.

        It takes as long as a small sketch takes to compile, and goes on beside it.  What goes wrong
        is raised by :meth:`station`.
        """
        chosen = wanted.address is not None or wanted.serial_number is not None
        if chosen or wanted.board.lane is Lane.HARDWARE or self._station or self._coming:
            return
        beside = ThreadPoolExecutor(1, "plug-in")
        self._coming = beside.submit(plug_in, wanted.board, lease_pid=os.getpid())
        beside.shutdown(wait=False)
        self._owned.callback(self._send_away)

    def _send_away(self) -> None:
        coming, self._coming = self._coming, None
        if coming is not None:
            with suppress(HilError):
                coming.result().unplug()

    def _virtual(self, wanted: Wanted) -> VirtualStation:
        plugged, own = self._plugged(wanted)
        port = _port_of(plugged)
        with ExitStack() as owned:
            if own:
                owned.callback(plugged.unplug)
            before = plugged.status().sent_bytes
            session = self._open(port, wanted.board, BoardWitness(plugged, self._symbols))
            # From here on the station gives both back.
            owned.pop_all()
        return VirtualStation(
            wanted.board,
            port,
            session,
            self.progress,
            plugged=plugged,
            own=own,
            sent_before_bytes=before,
        )

    def _plugged(self, wanted: Wanted) -> tuple[PluggedBoard, bool]:
        """The virtual board that is meant, and whether it was plugged in just now, for this run."""
        coming, self._coming = self._coming, None
        if coming is not None:
            return coming.result(), True
        if wanted.address is None and wanted.serial_number is None:
            plugged = plug_in(
                wanted.board,
                lease_pid=os.getpid(),
                core_version=wanted.core_version.version if wanted.virtual else None,
                behave=wanted.behave,
            )
            return plugged, True
        present = {each.serial_number: each for each in plugged_boards()}
        port = choose_port(
            [_port_of(each) for each in present.values()],
            wanted.board,
            address=wanted.address,
            serial_number=wanted.serial_number,
        )
        return present[port.serial_number], False

    def _remote(self, wanted: Wanted, cli: ArduinoCli) -> RemoteStation:
        """A board with a Linux side, or its stand-in: from here on nothing tells them apart."""
        board = wanted.board
        with ExitStack() as owned:
            plugged: PluggedBoard | None = None
            serial_number = wanted.serial_number
            if wanted.virtual:
                plugged, own = self._plugged(wanted)
                serial_number = plugged.serial_number
                if own:
                    owned.callback(plugged.unplug)
            taken = owned.enter_context(
                take_board(
                    board,
                    lambda: list_ports(cli),
                    self.inventory,
                    purpose=f"testing {board.name!r}",
                    address=wanted.address,
                    serial_number=serial_number,
                    core_version=wanted.core_version.version,
                    virtual=plugged is not None,
                    progress=self.progress,
                )
            )
            port, entry, claim = taken.port, taken.entry, taken.claim
            if plugged is None or entry is not None:
                self._counted = port.serial_number
            device = AdbDevice(find_adb(cli), port.serial_number)
            if board.linux_side is None:
                raise BenchError(
                    f"board {board.name!r} has no [linux_side], so it cannot be uploaded to",
                    remedy=f"add it to {board.path}; boards/README.md describes it",
                )
            back_door = BackDoor(device, board.linux_side)
            witness = StationWitness(back_door, self._symbols, plugged)
            session = self._open(port, board, witness)
            owned.callback(session.close)
            if entry is not None and entry.reset:
                board = replace(board, reset_methods=entry.reset)
            station = RemoteStation(
                board,
                port,
                session,
                self.progress,
                back_door=back_door,
                find=lambda: follow(
                    port.serial_number, lambda: list_ports(cli), was_at=session.stream.name
                ),
                reopen=lambda there: session.resume(
                    open_serial_port(there.address, baud=board.serial.baud)
                ),
                power=_power(entry),
                given_back=owned.pop_all(),
            )
        if claim.remark is not None:
            station.remarks.append(claim.remark)
            # Whoever had it before may have been ended in the middle of an upload.
            station.distrusted = True
        return station

    def _symbols(self) -> Path | None:
        """The ELF that names the addresses of what runs now."""
        running = self._station.flashed if self._station is not None else None
        return running.symbols if running is not None else None

    def _open(self, port: Port, board: Board, witness: Witness) -> Session:
        stream = open_serial_port(port.address, baud=board.serial.baud)
        session = Session(stream, open_transcript(self.folder), witness=witness)
        session.start()
        return session

    def note_verdict(self) -> None:
        """A case passed or failed on the board, so the board works."""
        self._judged = True

    def note_fault(self, error: HilError) -> None:
        """Count a fault against the board, where it says something of the board."""
        if self._fault is None and counts_against_board(error):
            self._fault = error.message

    def on_close(self, give_back: Callable[[], object]) -> None:
        """Have something else that the run holds given back together with the board."""
        self._owned.callback(give_back)

    def close(self) -> None:
        """Give up the board, and whatever else the run holds; a second call does nothing."""
        station, self._station = self._station, None
        counted, self._counted = self._counted, None
        with self._owned:
            if counted is not None and (self._judged or self._fault is not None):
                self._owned.callback(
                    record_outcome,
                    counted,
                    fault=self._fault,
                    after_faults=self.inventory.after_faults,
                    progress=self.progress,
                )
            if station is not None:
                station.close()


def _port_of(plugged: PluggedBoard) -> Port:
    record = plugged.record
    return Port(record.address, record.vid, record.pid, record.serial_number, record.label)


def _power(entry: BenchBoard | None) -> Callable[[], None] | None:
    if entry is None or not entry.power_command:
        return None
    command = entry.power_command

    def switch() -> None:
        done = process.run(command, timeout_s=POWER_TIMEOUT_S)
        if not done.ok:
            raise ToolError(
                f"the command that switches the board's power failed with exit code"
                f" {done.returncode}",
                remedy="correct power_command in the bench's inventory",
                evidence=(" ".join(command), *done.tail()),
            )

    return switch
