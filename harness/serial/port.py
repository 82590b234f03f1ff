"""Serial ports and ptys as a :class:`~harness.serial.byte_stream.ByteStream`, through pyserial."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import select
import stat
import threading
from contextlib import suppress
from pathlib import Path

import serial

from harness.errors import DeviceError
from harness.serial.byte_stream import StreamGone
from harness.serial.port_holders import Holder, port_holders

WRITE_TIMEOUT_S = 5.0
"""Seconds a port may refuse bytes before a write is given up."""


class SerialPort:
    """An open port, held exclusively; made by :func:`open_serial_port`."""

    def __init__(self, port: serial.Serial, address: str, wake: tuple[int, int]) -> None:
        self._port = port
        self._address = address
        self._wake_read, self._wake_write = wake
        self._closing = threading.Event()
        self._reading = threading.Lock()

    @property
    def name(self) -> str:
        """The address it was opened by."""
        return self._address

    def read(self, max_bytes: int, timeout_s: float) -> bytes:
        """See :class:`~harness.serial.byte_stream.ByteStream`.

        Reads the descriptor itself: pyserial's own read waits for all bytes asked for, and changing
        its timeout configures the port anew, which fails on a port that has just gone and would
        lose the last words that are still to be read from it.
        """
        with self._reading:
            if self._closing.is_set():
                raise self._gone("closed")
            descriptor = self._port.fileno()
            ready, _, _ = select.select([descriptor, self._wake_read], [], [], timeout_s)
            if self._closing.is_set():
                raise self._gone("closed")
            if descriptor not in ready:
                return b""
            try:
                data = os.read(descriptor, max_bytes)
            except BlockingIOError:
                return b""
            except OSError as error:
                raise self._gone(str(error)) from error
            if not data:
                raise self._gone("end of file")
            return data

    def write(self, data: bytes) -> None:
        """See :class:`ByteStream`; waits :data:`WRITE_TIMEOUT_S` at most."""
        if self._closing.is_set():
            raise self._gone("closed")
        try:
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            raise DeviceError(
                f"port {self._address!r} took no byte of a {len(data)}-byte write"
                f" for {WRITE_TIMEOUT_S:g} s",
                remedy="nothing reads on the board's side: reset the board, or plug it in again",
            ) from error
        except (serial.SerialException, OSError, TypeError) as error:
            raise self._gone(str(error)) from error

    def close(self) -> None:
        """See :class:`~harness.serial.byte_stream.ByteStream`."""
        if self._closing.is_set():
            return
        self._closing.set()
        os.write(self._wake_write, b"x")
        with self._reading:
            with suppress(serial.SerialException, OSError):
                self._port.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _gone(self, why: str) -> StreamGone:
        if self._closing.is_set():
            return StreamGone(
                f"port {self._address!r} is closed", remedy="open it again before using it"
            )
        return StreamGone(
            f"port {self._address!r} vanished while it was in use",
            remedy="check the cable and that the board is still plugged in"
            " ('hil boards', 'arduino-cli board list'), then run again",
            evidence=(why,),
        )


def open_serial_port(address: str, *, baud: int = 115200) -> SerialPort:
    """Open ``address`` for this process alone, raw, 8N1.

    Raises :class:`DeviceError` when the port is missing, busy (naming the process that holds it
    where ``/proc`` tells), not permitted, or not a serial port.
    """
    others = port_holders(address)
    if others:
        raise _busy(address, others)
    port = serial.Serial()
    port.port = address
    port.baudrate = baud
    port.write_timeout = WRITE_TIMEOUT_S
    port.exclusive = True
    try:
        port.open()
    except (serial.SerialException, OSError) as error:
        raise _cannot_open(address, error) from error
    return SerialPort(port, address, os.pipe())


def _cannot_open(address: str, error: OSError) -> DeviceError:
    number = error.errno or _wrapped_errno(error)
    path = Path(address)
    evidence = (str(error),)
    if number == errno.ENOENT or not path.exists():
        return DeviceError(
            f"there is no port {address!r}",
            remedy="plug the board in, or start an emulated one with 'hil emulate BOARD';"
            " 'arduino-cli board list' shows the ports there are",
            evidence=evidence,
        )
    if number in (errno.EACCES, errno.EPERM):
        return DeviceError(
            f"port {address!r} may not be opened by user id {os.getuid()}",
            remedy=permission_remedy(path),
            evidence=evidence,
        )
    # pyserial reports a refused lock without an errno of its own, as EAGAIN in the text.
    if number in (errno.EBUSY, errno.EAGAIN) or "exclusively lock" in str(error):
        return _busy(address, port_holders(address), evidence)
    if number in (errno.ENOTTY, errno.EINVAL) or not stat.S_ISCHR(path.stat().st_mode):
        return DeviceError(
            f"{address!r} is not a serial port",
            remedy="give the port of a board; 'arduino-cli board list' shows them",
            evidence=evidence,
        )
    return DeviceError(
        f"port {address!r} cannot be opened: {os.strerror(number) if number else error}",
        remedy="unplug the board and plug it in again; if it stays, see the kernel's log (dmesg)",
        evidence=evidence,
    )


def _wrapped_errno(error: OSError) -> int | None:
    # pyserial puts what termios said into its text only; the first argument there is the number.
    context = error.__context__
    first = context.args[0] if context is not None and context.args else None
    return first if isinstance(first, int) else None


def _busy(address: str, holders: tuple[Holder, ...], evidence: tuple[str, ...] = ()) -> DeviceError:
    if not holders:
        return DeviceError(
            f"port {address!r} is busy",
            remedy="another process holds it, perhaps this one or another user's:"
            f" see 'fuser -v {address}', close it and run again",
            evidence=evidence,
        )
    names = ", ".join(str(holder) for holder in holders)
    return DeviceError(
        f"port {address!r} is busy: held by {names}",
        remedy="close the serial monitor or the run that holds it, then run again",
        evidence=evidence,
    )


def permission_remedy(path: Path, *, uid: int | None = None) -> str:
    """What lets this user open the port: a group to join or join anew, or the core's udev rules."""
    with suppress(OSError, KeyError):
        group = grp.getgrgid(path.stat().st_gid)
        if group.gr_name != "root":
            user = pwd.getpwuid(os.getuid() if uid is None else uid).pw_name
            if user in group.gr_mem:
                return (
                    f"log out and in again: user {user!r} was added to the port's group"
                    f" {group.gr_name!r} after this session began"
                )
            return (
                f"add the user to the port's group: sudo usermod -aG {group.gr_name} $USER,"
                " then log in again"
            )
    return "install the udev rules of the board's core, then plug the board in again"
