"""The desk: the board a run uses, its port and its transcript, and who unplugs it afterwards.

A virtual board is plugged in for the run unless one was chosen by port or serial number; it is
leased to this process, so that it goes away even when the run is killed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.port import Port, choose_port, list_ports
from harness.arduino.upload import upload
from harness.boards.board import Board, Lane
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.errors import DeviceError
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.transcript import open_transcript
from harness.storage.digest import file_digest


@dataclass
class Station:
    """One board with its port held open, from before the first upload to the end of the run."""

    board: Board
    port: Port
    session: Session
    plugged: PluggedBoard | None
    own: bool
    running: Firmware | None = None

    def flash(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Upload ``firmware`` and forget what the board said before it started."""
        self.running = None
        self.session.skip_received()
        upload(
            cli,
            self.board,
            firmware,
            address=self.port.address,
            firmware_digest=self._firmware_digest if self.plugged is not None else None,
            expected_digest=file_digest,
        )
        self.running = firmware

    def reset(self) -> None:
        """Reset the board without touching its port."""
        if self.plugged is None:
            raise DeviceError(
                f"board {self.board.name!r} cannot be reset from here",
                remedy="press its reset button",
            )
        self.session.skip_received()
        self.plugged.reset()

    def require_alive(self) -> None:
        """Raise :class:`DeviceError` when the emulator behind a virtual board has died."""
        if self.plugged is not None:
            self.plugged.status().check_alive(self.port.serial_number)

    def _firmware_digest(self) -> str | None:
        assert self.plugged is not None
        return self.plugged.status().firmware_sha256

    def close(self) -> None:
        """Free the port, and unplug the board when this run plugged it in."""
        try:
            self.session.close()
        finally:
            if self.own and self.plugged is not None:
                self.plugged.unplug()


@dataclass
class Desk:
    """Where the one board of a run stands; ``folder`` receives the transcript."""

    folder: Path | None
    _station: Station | None = field(default=None)

    @property
    def current(self) -> Station | None:
        """The station, where one has been set up."""
        return self._station

    def station(
        self, board: Board, cli: ArduinoCli, *, address: str | None, serial_number: str | None
    ) -> Station:
        """The board's station; the first call finds or plugs in the board and opens its port."""
        if self._station is None:
            self._station = self._set_up(board, cli, address, serial_number)
        return self._station

    def _set_up(
        self, board: Board, cli: ArduinoCli, address: str | None, serial_number: str | None
    ) -> Station:
        plugged: PluggedBoard | None = None
        own = False
        if board.lane is Lane.HARDWARE:
            port = choose_port(list_ports(cli), board, address=address, serial_number=serial_number)
        elif address is None and serial_number is None:
            plugged, own = plug_in(board, lease_pid=os.getpid()), True
            port = _port_of(plugged)
        else:
            present = {each.serial_number: each for each in plugged_boards()}
            port = choose_port(
                [_port_of(each) for each in present.values()],
                board,
                address=address,
                serial_number=serial_number,
            )
            plugged = present[port.serial_number]
        try:
            stream = open_serial_port(port.address, baud=board.serial.baud)
            session = Session(stream, open_transcript(self.folder))
            session.start()
        except BaseException:
            if own and plugged is not None:
                plugged.unplug()
            raise
        return Station(board, port, session, plugged, own)

    def close(self) -> None:
        """Give up the board; a second call does nothing."""
        station, self._station = self._station, None
        if station is not None:
            station.close()


def _port_of(plugged: PluggedBoard) -> Port:
    record = plugged.record
    return Port(record.address, record.vid, record.pid, record.serial_number, record.label)
