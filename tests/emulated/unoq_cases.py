"""What runs on a misbehaving stand-in for the Uno Q; test_unoq_misbehaviour.py judges the verdicts.

Run in a pytest of its own with ``--hil-board unoq --hil-virtual [--hil-behave FILE]``; ``-k``
chooses.  The tests are those of somebody who expects a board that behaves.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.arduino.build import Firmware
from harness.arduino.sketch import read_sketch
from harness.clock import Deadline
from harness.desk.remote_station import RemoteStation
from harness.emulator.client import find_plugged
from harness.paths import sketches_dir
from harness.pipeline import Bench
from harness.runner.link import RunnerLink
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from tests.child_run import wait_until

NONCE = "fault"
"""What ``bad_records`` calls itself in its records."""

PATIENT_S = 20.0
SHORT_S = 2.0
"""How long a word is waited for that will not come."""


def built(bench: Bench, name: str) -> Firmware:
    return bench.firmware(read_sketch(sketches_dir() / name), with_library=False)


def boot(bench: Bench, name: str) -> Session:
    return bench.boot(built(bench, name))


def talk(dut: Session, timeout_s: float) -> None:
    for word in ("one", "two"):
        dut.write_line(word)
        dut.expect_exact(f"echo: {word}", timeout_s=timeout_s)


def test_echo(bench: Bench) -> None:
    dut = boot(bench, "echo")
    dut.expect("echo ready", timeout_s=PATIENT_S)
    talk(dut, PATIENT_S)


def test_no_greeting(bench: Bench) -> None:
    """Waits not long for the first line."""
    boot(bench, "echo").expect("echo ready", timeout_s=SHORT_S)


def test_no_answer(bench: Bench) -> None:
    """Waits not long for what it asks for."""
    dut = boot(bench, "echo")
    dut.expect("echo ready", timeout_s=PATIENT_S)
    talk(dut, SHORT_S)


def test_records(bench: Bench) -> None:
    """Many records, none of which may be anything but whole."""
    link = RunnerLink(boot(bench, "fault/bad_records"), NONCE)
    link.greet(timeout_s=PATIENT_S)
    for _ in range(30):
        record = link.request("hello", timeout_s=5)
        assert record.fields["block"] == 1024


def test_greeting(bench: Bench) -> None:
    """No more than the first record."""
    RunnerLink(boot(bench, "fault/bad_records"), NONCE).greet(timeout_s=4)


def test_listens(bench: Bench) -> None:
    """Waits for long, and not until its limit where the port goes away meanwhile."""
    dut = boot(bench, "echo")
    dut.expect("echo ready", timeout_s=PATIENT_S)
    dut.expect("a word that never comes", timeout_s=100)


def test_silent_one_is_not_heard(bench: Bench) -> None:
    """Whatever comes from this board, this firmware did not say it."""
    boot(bench, "fault/silent").expect("a word", timeout_s=SHORT_S)


def test_old_firmware_is_not_believed(bench: Bench) -> None:
    """The board runs another firmware that answers just as well."""
    old = built(bench, "fault/wrong_answer")
    find_plugged(bench.station().port.serial_number).flash(old.elf)
    bench.station().session.expect("Add Model", timeout_s=PATIENT_S)
    boot(bench, "echo").expect("echo ready", timeout_s=PATIENT_S)


def test_waits_for_serial_with_a_reader(bench: Bench) -> None:
    boot(bench, "fault/waits_for_serial").expect("somebody is there", timeout_s=PATIENT_S)


def test_waits_for_serial_alone(bench: Bench) -> None:
    """Somebody starts the board while nobody reads; the reader comes too late."""
    dut = boot(bench, "fault/waits_for_serial")
    dut.expect("somebody is there", timeout_s=PATIENT_S)
    station = bench.station()
    assert isinstance(station, RemoteStation)
    assert station.flashed is not None
    dut.stream.close()
    plugged = find_plugged(station.port.serial_number)
    deadline = Deadline.after(30)
    while plugged.status().reader:
        assert not deadline.expired
    plugged.reset()
    while "in setup (" not in _where(station):
        assert not deadline.expired
    dut.resume(open_serial_port(station.port.address, baud=bench.board.serial.baud))
    dut.expect("somebody is there", timeout_s=SHORT_S)


def _where(station: RemoteStation) -> str:
    """Where the core stands by now, in words."""
    assert station.flashed is not None
    return "\n".join(station.back_door.describe_silence(station.flashed.symbols))


def test_hard_fault(bench: Bench) -> None:
    dut = boot(bench, "fault/hard_fault")
    dut.expect("sensor: started", timeout_s=PATIENT_S)
    dut.expect("a measured value", timeout_s=SHORT_S)


def test_fatal_masked(bench: Bench) -> None:
    boot(bench, "fault/fatal_masked").expect("model: loaded", timeout_s=SHORT_S)


def test_watchdog(bench: Bench) -> None:
    boot(bench, "fault/watchdog").expect("a third line", timeout_s=SHORT_S)


def test_profile(bench: Bench, tmp_path: Path) -> None:
    sketch = tmp_path / "profiled"
    sketch.mkdir()
    (sketch / "profiled.ino").write_text("void setup() {}\nvoid loop() {}\n")
    (sketch / "sketch.yaml").write_text("default_profile: mine\n")
    bench.boot(bench.firmware(read_sketch(sketch), with_library=False))


def test_hang_build(bench: Bench) -> None:
    """A sketch that no cache has, so that it is compiled."""
    fresh = read_sketch(sketches_dir() / "echo")
    text = f"// {os.environ['FAULT_MARK']}\n".encode()
    bench.firmware(fresh.with_files({"note.h": text}), with_library=False)


def test_hang_session(bench: Bench) -> None:
    """Listens until it is killed; says through a file that it got so far."""
    dut = boot(bench, "echo")
    dut.expect("echo ready", timeout_s=PATIENT_S)
    Path(os.environ["FAULT_MARK"]).touch()
    dut.expect("a word that never comes", timeout_s=300)


def test_holds(bench: Bench) -> None:
    """Has the board until it is told to go on by a file."""
    dut = boot(bench, "echo")
    dut.expect("echo ready", timeout_s=PATIENT_S)
    mark = Path(os.environ["FAULT_MARK"])
    mark.touch()
    wait_until(mark.with_suffix(".go").exists, 120)
    talk(dut, PATIENT_S)


@pytest.fixture
def killed_in_teardown() -> Iterator[None]:
    """A run whose process dies while the test's fixtures are torn down."""
    yield
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("killed_in_teardown")
def test_dies_in_teardown(bench: Bench) -> None:
    boot(bench, "echo").expect("echo ready", timeout_s=PATIENT_S)


def test_dies_at_the_end(bench: Bench) -> None:
    """The process dies when the board has just been given back, before the record is written."""
    boot(bench, "echo").expect("echo ready", timeout_s=PATIENT_S)
    bench.desk.on_close(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_again_after_it(bench: Bench) -> None:
    """What a run says of the case after one that went wrong."""
    test_echo(bench)
