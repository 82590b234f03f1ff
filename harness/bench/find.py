"""Finding the board that a run means, and saying why it is not found.

What arduino-cli lists decides.  Where it lists no such board, USB itself is asked why: a board may
be there without a port.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.arduino.port import BoardAbsent, Port, choose_port, identity, seen
from harness.bench.usb import CDC_ACM_CLASS, EDL, SYSFS, UsbDevice, usb_devices
from harness.boards.board import Board, Lane, UsbIdentity
from harness.clock import Deadline, pause

FOLLOW_S = 30.0
"""Seconds a board may be away from USB before it counts as gone."""

LOOK_S = 0.5
"""Seconds between two looks for a board that is away."""


def find_port(
    ports: Sequence[Port],
    board: Board,
    *,
    address: str | None = None,
    serial_number: str | None = None,
    sysfs: Path | None = SYSFS,
) -> Port:
    """The port of the one board that is meant; see :func:`harness.arduino.port.choose_port`.

    With ``sysfs`` None USB is not asked, as for a stand-in, which is not on it.

    Raises :class:`BoardAbsent` or another ``DeviceError`` whose one sentence says which of
    the things that can be wrong it is.
    """
    try:
        return choose_port(ports, board, address=address, serial_number=serial_number)
    except BoardAbsent as absent:
        if board.lane is not Lane.HARDWARE or sysfs is None:
            raise
        why = _why_absent(absent, board, address, serial_number, usb_devices(sysfs))
        if why is absent:
            raise
        raise why from absent


def follow(
    serial_number: str,
    look: Callable[[], Sequence[Port]],
    *,
    was_at: str | None = None,
    timeout_s: float = FOLLOW_S,
    look_s: float = LOOK_S,
    sysfs: Path = SYSFS,
) -> Port:
    """The port at which this very board is now, waiting for it to come back.

    ``look`` lists the ports, ``was_at`` is where it was.  Raises :class:`BoardAbsent` after
    ``timeout_s`` seconds; it has looked once in any case.
    """
    deadline = Deadline.after(timeout_s)
    while True:
        ports = look()
        # Over a network a board shows itself under the same serial number.
        here = [
            port
            for port in ports
            if port.serial_number == serial_number and port.protocol == "serial"
        ]
        if len(here) == 1:
            return here[0]
        if deadline.expired:
            raise _gone(serial_number, was_at, here, ports, timeout_s, usb_devices(sysfs))
        pause(min(look_s, deadline.remaining_s))


def _why_absent(
    absent: BoardAbsent,
    board: Board,
    address: str | None,
    serial_number: str | None,
    devices: Sequence[UsbDevice],
) -> BoardAbsent:
    """A closer reason than "not plugged in", or ``absent`` itself."""
    if address is not None and os.access(address, os.F_OK):
        # Nothing to do with USB: the port is there, and no discovery knows what is behind it.
        return BoardAbsent(
            f"port {address!r} exists, but arduino-cli does not list it as one with a board"
            f" {board.name!r} ({identity(board)}) behind it",
            remedy=f"leave --hil-port out, or {absent.remedy}",
            evidence=absent.evidence,
        )
    kind = [each for each in devices if _same(each.identity, board.usb)]
    portless = [
        each
        for each in kind
        if not each.ttys and serial_number in (None, each.serial_number) and address is None
    ]
    if portless:
        return _without_port(portless[0], board, absent)
    unlisted = [each for each in kind if each.ttys and serial_number in (None, each.serial_number)]
    if unlisted and address is None:
        return BoardAbsent(
            f"board {board.name!r} is on USB at {unlisted[0].ttys[0]!r}, but arduino-cli does not"
            " list it",
            remedy="its serial discovery is missing, too slow, or sees another machine's ports:"
            " run 'hil doctor --lane hardware'",
            evidence=(*absent.evidence, str(unlisted[0])),
        )
    download = [each for each in devices if _same(each.identity, EDL)]
    if download and board.linux_side is not None:
        return _in_download_mode(download[0], absent, serial_number)
    return absent


def _without_port(device: UsbDevice, board: Board, absent: BoardAbsent) -> BoardAbsent:
    if CDC_ACM_CLASS in device.interface_classes:
        state = "is on USB and offers a serial port, but the kernel made none of it"
        remedy = (
            "load the kernel's driver (sudo modprobe cdc_acm); a kernel that was updated needs a"
            " restart of the machine first"
        )
    else:
        state = "is on USB, but has no serial port"
        remedy = (
            "its Linux side may still boot: wait half a minute and run again; if it stays, try"
            " another cable and port, then unplug the board and plug it in again"
        )
    number = device.serial_number or "no serial number"
    return BoardAbsent(
        f"board {board.name!r} ({identity(board)}, {number}) {state}",
        remedy=remedy,
        evidence=(*absent.evidence, str(device)),
    )


def _in_download_mode(
    device: UsbDevice, absent: BoardAbsent, serial_number: str | None
) -> BoardAbsent:
    which = " (it may be the one that was asked for)" if serial_number is not None else ""
    return BoardAbsent(
        f"{absent.message}, but a board in emergency download mode (EDL) is on USB"
        f" {device.place}{which}",
        remedy="remove the jumper that selects this mode, unplug the board and plug it in again;"
        " if it comes back so, its Linux system is gone: install it anew with Arduino's flasher"
        " tool",
        evidence=(*absent.evidence, str(device)),
    )


def _gone(
    serial_number: str,
    was_at: str | None,
    here: Sequence[Port],
    ports: Sequence[Port],
    timeout_s: float,
    devices: Sequence[UsbDevice],
) -> BoardAbsent:
    where = f" from {was_at!r}" if was_at is not None else ""
    state = f"came back as {len(here)} boards" if here else "did not come back"
    remedy = (
        "check cable, hub and power, unplug the board and plug it in again; the kernel's log"
        " (dmesg) says when it left USB"
    )
    also = [each for each in devices if each.serial_number == serial_number and not each.ttys]
    also += [each for each in devices if _same(each.identity, EDL)]
    if also and _same(also[0].identity, EDL):
        state += "; a board in emergency download mode (EDL) is on USB"
    elif also:
        state += "; it is on USB without a serial port"
    return BoardAbsent(
        f"board {serial_number!r} vanished{where} and within {timeout_s:g} s {state}",
        remedy=remedy,
        evidence=(*seen(ports), *(str(each) for each in also)),
    )


def _same(one: UsbIdentity, other: UsbIdentity) -> bool:
    return (one.vid, one.pid) == (other.vid, other.pid)
