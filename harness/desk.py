"""The desk: the board a run uses, its port and its transcript, and who unplugs it afterwards.

A virtual board is plugged in for the run unless one was chosen by port or serial number; it is
leased to this process, so that it goes away even when the run is killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.port import Port, choose_port, list_ports
from harness.arduino.upload import CLOSING_S, Running, Upload, upload
from harness.boards.board import Board, Lane
from harness.clock import Deadline
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.emulator.witness import BoardWitness
from harness.errors import DeviceError
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.transcript import open_transcript


@dataclass
class Station:
    """One board with its port held open, from before the first upload to the end of the run."""

    board: Board
    port: Port
    session: Session
    plugged: PluggedBoard | None
    own: bool
    running: Firmware | None = None
    sent_before_bytes: int = 0
    """What a virtual board had sent to its port before it was opened here."""

    _closing: list[Upload] = field(default_factory=list)

    def flash(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Upload ``firmware`` and forget what the board said before it started.

        Raises what :func:`harness.arduino.upload.upload` does, and :class:`ToolError` for an
        earlier upload whose call has failed since.
        """
        self.running = None
        self.check_uploads()
        self.session.skip_received()
        call = upload(
            cli,
            self.board,
            firmware,
            address=self.port.address,
            running=self._state if self.plugged is not None else None,
        )
        self._closing.append(call)
        self._skip_to_boot()
        self.running = firmware

    def _skip_to_boot(self) -> None:
        """A virtual board knows the byte at which it booted: nothing before it is believed."""
        if self.plugged is not None:
            booted_at = self.plugged.status().sent_bytes_at_boot
            self.session.skip_to(booted_at - self.sent_before_bytes)

    def check_uploads(self, *, wait: bool = False) -> None:
        """Judge the upload calls that have ended since their board ran the firmware.

        Those that have not are left to a later look, or with ``wait`` waited for.  Raises
        :class:`ToolError` when one failed or does not end.
        """
        deadline = Deadline.after(CLOSING_S)
        for call in tuple(self._closing):
            if wait or call.ended:
                self._closing.remove(call)
                call.finish(deadline)

    def reset(self) -> None:
        """Reset the board without touching its port."""
        if self.plugged is None:
            raise DeviceError(
                f"board {self.board.name!r} cannot be reset from here",
                remedy="press its reset button",
            )
        self.session.skip_received()
        self.plugged.reset()
        self._skip_to_boot()

    def require_alive(self) -> None:
        """Raise :class:`DeviceError` when the emulator behind a virtual board has died."""
        if self.plugged is not None:
            self.plugged.status().check_alive(self.port.serial_number)

    def _state(self) -> Running:
        assert self.plugged is not None
        status = self.plugged.status()
        return Running(status.boots, status.firmware_sha256)

    def close(self) -> None:
        """Free the port, and unplug the board when this run plugged it in.

        Raises :class:`ToolError`, with everything freed, when an upload's call failed after all.
        """
        with ExitStack() as freed:
            if self.own and self.plugged is not None:
                freed.callback(self.plugged.unplug)
            freed.callback(self.session.close)
            for call in self._closing:
                freed.callback(call.abandon)
            self.check_uploads(wait=True)


@dataclass
class Desk:
    """Where the one board of a run stands; ``folder`` receives the transcript."""

    folder: Path | None
    _station: Station | None = field(default=None)
    _owned: ExitStack = field(default_factory=ExitStack)

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
        before = plugged.status().sent_bytes if plugged is not None else 0
        try:
            stream = open_serial_port(port.address, baud=board.serial.baud)
            witness = BoardWitness(plugged) if plugged is not None else None
            session = Session(stream, open_transcript(self.folder), witness=witness)
            session.start()
        except BaseException:
            if own and plugged is not None:
                plugged.unplug()
            raise
        return Station(board, port, session, plugged, own, sent_before_bytes=before)

    def on_close(self, give_back: Callable[[], object]) -> None:
        """Have something else that the run holds given back together with the board."""
        self._owned.callback(give_back)

    def close(self) -> None:
        """Give up the board, and whatever else the run holds; a second call does nothing."""
        station, self._station = self._station, None
        with self._owned:
            if station is not None:
                station.close()


def _port_of(plugged: PluggedBoard) -> Port:
    record = plugged.record
    return Port(record.address, record.vid, record.pid, record.serial_number, record.label)
