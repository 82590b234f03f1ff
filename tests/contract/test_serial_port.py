"""Ports that are missing, busy, forbidden, no ports at all, or that vanish; with real processes."""

from __future__ import annotations

import errno
import os
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import serial

from harness.clock import Deadline, pause
from harness.errors import DeviceError
from harness.process import end, spawn
from harness.serial.byte_stream import StreamGone
from harness.serial.port import open_serial_port
from harness.serial.port_holders import port_holders
from harness.serial.session import Session
from harness.serial.session_errors import StreamEnded
from harness.serial.transcript import open_transcript


@pytest.fixture
def port() -> Iterator[str]:
    master, slave = os.openpty()
    tty.setraw(slave)
    yield os.ttyname(slave)
    os.close(slave)
    os.close(master)


@contextmanager
def child(code: str, *arguments: str) -> Iterator[int]:
    """A Python child that prints a line when it is ready; yields its process id."""
    process = spawn([sys.executable, "-c", code, *arguments])
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        end(process, grace_s=0.5)


HOLD = """
import os, sys, time
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
print("ready", flush=True)
time.sleep(60)
"""

PLAY_A_BOARD = """
import os, sys, time, tty
master, slave = os.openpty()
tty.setraw(slave)
os.symlink(os.ttyname(slave), sys.argv[1])
print("ready", flush=True)
os.read(master, 1)
for each in b"boot" + bytes([10]) + b"HARD FAU":
    os.write(master, bytes([each]))
os.read(master, 1)
"""


def test_a_missing_port_says_how_to_get_one() -> None:
    with pytest.raises(DeviceError, match="there is no port '/dev/nothing'") as caught:
        open_serial_port("/dev/nothing")
    assert "hil emulate" in caught.value.remedy


def test_a_busy_port_names_who_holds_it(port: str) -> None:
    with child(HOLD, port) as pid:
        assert [each.pid for each in port_holders(port)] == [pid]
        with pytest.raises(DeviceError, match=rf"is busy: held by .* \(process {pid}\)") as caught:
            open_serial_port(port)
        assert "monitor" in caught.value.remedy
    open_serial_port(port).close()


def test_a_port_this_process_holds_is_busy_too(port: str) -> None:
    first = open_serial_port(port)
    try:
        with pytest.raises(DeviceError, match="is busy"):
            open_serial_port(port)
    finally:
        first.close()
    open_serial_port(port).close()


def test_what_is_no_serial_port_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for each in (str(tmp_path / "file"), "/dev/null"):
        with pytest.raises(DeviceError, match="is not a serial port"):
            open_serial_port(each)


def test_a_forbidden_port_says_which_group_to_join(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, whom no permission stops: the refusal is the kernel's own, made up.
    def refuse(_: object) -> None:
        raise serial.SerialException(errno.EACCES, "could not open port: Permission denied")

    monkeypatch.setattr(serial.Serial, "open", refuse)
    with pytest.raises(DeviceError, match="may not be opened by user id") as caught:
        open_serial_port(port)
    assert "usermod -aG" in caught.value.remedy or "udev" in caught.value.remedy


def test_a_board_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    link = tmp_path / "tty"
    with child(PLAY_A_BOARD, str(link)):
        stream = open_serial_port(str(link))
        with Session(stream, open_transcript(tmp_path)) as dut:
            # The process that plays the board holds its port, too, and is not in the way.
            dut.write(b"!")
            dut.expect("FAU", timeout_s=10)
            dut.write(b"?")
            with pytest.raises(StreamEnded, match="vanished") as caught:
                dut.expect("ready", timeout_s=10)
    assert caught.value.evidence[-3:] == ("boot", "HARD FAU [no newline]", "-> ?")
    assert (tmp_path / "serial.rx.bin").read_bytes() == b"boot\nHARD FAU"


def test_a_port_that_nobody_reads_does_not_hang_a_write(
    port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = open_serial_port(port)
    monkeypatch.setattr(stream._port, "_write_timeout", 0.1)
    try:
        with pytest.raises(DeviceError, match="took no byte"):
            stream.write(b"x" * 400_000)
    finally:
        stream.close()
    with pytest.raises(StreamGone, match="is closed"):
        stream.write(b"x")


def test_bytes_are_kept_while_nobody_asks() -> None:
    # As during an upload, which takes seconds in which nobody calls expect.
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        with Session(open_serial_port(os.ttyname(slave)), open_transcript(None)) as dut:
            os.write(master, b"x" * 1000)
            deadline = Deadline.after(5)
            while dut.transcript.rx_length < 1000 and not deadline.expired:
                pause(0.01)
            assert dut.transcript.rx_length == 1000
    finally:
        os.close(slave)
        os.close(master)
