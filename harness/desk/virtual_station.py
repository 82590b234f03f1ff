"""A board of the host or emulated lane: what plays it says itself what it runs since when."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, field

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.upload import CLOSING_S, Running, Upload, upload, upload_command
from harness.clock import Deadline
from harness.desk.station import Station
from harness.emulator.client import PluggedBoard


@dataclass
class VirtualStation(Station):
    """``own``: this run plugged the board in and takes it away again.

    ``sent_before_bytes``: what the board had sent to its port before it was opened here.
    """

    plugged: PluggedBoard
    own: bool
    sent_before_bytes: int
    _closing: list[Upload] = field(default_factory=list, init=False)

    def flash(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Upload ``firmware`` and forget what the board said before it started.

        Raises what :func:`harness.arduino.upload.upload` does, and :class:`ToolError` for an
        earlier upload whose call has failed since.
        """
        self.running, self.flashed = None, firmware
        self.check_uploads()
        self.session.skip_received()
        argv = upload_command(cli, self.board, firmware, address=self.port.address, streamed=True)
        self.session.mark("call", argv=list(argv), firmware=firmware.key)
        call = upload(
            cli,
            self.board,
            firmware,
            address=self.port.address,
            running=self._state,
            tool_done=re.compile(
                rf"^flashed \d+ bytes to {re.escape(self.port.serial_number)}\r?$", re.MULTILINE
            ),
        )
        self._closing.append(call)
        self._skip_to_boot()
        self.running = firmware

    def _state(self) -> Running:
        status = self.plugged.status()
        return Running(status.boots, status.firmware_sha256)

    def _skip_to_boot(self) -> None:
        """The board knows the byte at which it booted: nothing before it is believed."""
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
        self.session.skip_received()
        self.plugged.reset()
        self._skip_to_boot()
        self.session.mark("reset")

    def require_alive(self) -> None:
        """Raise :class:`DeviceError` when the emulator behind the board has died."""
        self.plugged.status().check_alive(self.port.serial_number)

    def close(self) -> None:
        """Free the port, and unplug the board when this run plugged it in.

        Raises :class:`ToolError`, with everything freed, when an upload's call failed after all.
        """
        with ExitStack() as freed:
            if self.own:
                freed.callback(self.plugged.unplug)
            freed.callback(self.session.close)
            for call in self._closing:
                freed.callback(call.abandon)
            self.check_uploads(wait=True)
