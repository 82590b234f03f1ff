"""Faults made for real, one a test; run by test_faults.py in a pytest of its own.

Each of these must *not* pass: what is made of it is judged there.  ``-k`` chooses, since those of
one exit code run together.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.arduino.port import choose_port, list_ports
from harness.arduino.sketch import Sketch, read_sketch
from harness.desk.virtual_station import VirtualStation
from harness.errors import in_stage
from harness.model.header import header_text
from harness.paths import sketches_dir
from harness.pipeline import Bench
from harness.report.expectation import require_equal
from harness.report.observation import added_vector
from harness.runner.client import Runner
from harness.serial.session import Session
from tests import programs

NONCE = "fault"
"""What ``bad_records`` calls itself in its records."""


def sketch(name: str) -> Sketch:
    return read_sketch(sketches_dir() / "fault" / name)


def boot(bench: Bench, name: str) -> Session:
    return bench.boot(bench.firmware(sketch(name), with_library=False))


@pytest.mark.parametrize("name", ["does_not_compile", "no_model", "flash_overflow", "ram_overflow"])
def test_failed_build(bench: Bench, name: str) -> None:
    boot(bench, name)


def test_failed_wrong_output(bench: Bench) -> None:
    dut = boot(bench, "wrong_answer")
    dut.expect(r"1 = \[[^\]]*\]", timeout_s=20)
    require_equal("AddModel's answer", added_vector(dut.received_since_boot()), (2.0, 3.0, 4.0))


def test_failed_crash(bench: Bench) -> None:
    boot(bench, "crash").expect("what a crashed board does not say", timeout_s=2)


MODELS: dict[str, Callable[[], bytes]] = {
    "of_m55": lambda: programs.linear_program(bias=False, kernel_sum=(67, 158)).build(),
    "of_m33": lambda: programs.linear_program(bias=True).build(),
    "other_exporter": lambda: programs.convolution_program(
        scratch_bytes=0, with_scratch=False
    ).build(),
    "operator_missing": lambda: programs.float_convolution_program(cortex_m=False).build(),
    "truncated": lambda: programs.linear_program(bias=True).build()[:300],
}


@pytest.mark.parametrize("name", MODELS)
def test_failed_model(bench: Bench, name: str) -> None:
    header = header_text(MODELS[name](), title=name).encode()
    carrier = sketch("silent").with_files({"model.h": header})
    bench.boot(bench.firmware(carrier, with_library=False))


def test_fault_silent(bench: Bench) -> None:
    boot(bench, "silent").expect("a word", timeout_s=1.5)


def test_fault_silent_after_another(bench: Bench) -> None:
    """What the firmware before it still says is not taken for a word of this one."""
    boot(bench, "flood").expect("0123456789", timeout_s=20)
    boot(bench, "silent").expect("0123456789", timeout_s=1.5)


def test_fault_reset_loop(bench: Bench) -> None:
    Runner(boot(bench, "reset_loop"), "loop").hello(timeout_s=20)


@pytest.mark.parametrize("verb", ["model", "library", "program"])
def test_fault_record(bench: Bench, verb: str) -> None:
    link = Runner(boot(bench, "bad_records"), NONCE).link
    link.greet(timeout_s=20)
    link.request(verb, timeout_s=10)
    link.request("hello", timeout_s=10)


def test_fault_earlier_firmware(bench: Bench) -> None:
    Runner(boot(bench, "bad_records"), "the nonce of a later build").hello(timeout_s=3)


def test_fault_qemu_dies(bench: Bench) -> None:
    dut = bench.boot(bench.firmware(read_sketch(sketches_dir() / "echo"), with_library=False))
    dut.expect("echo ready", timeout_s=20)
    station = bench.station()
    assert isinstance(station, VirtualStation)
    chip = station.plugged.status().pid_of_chip
    assert chip is not None
    os.kill(chip, signal.SIGKILL)
    dut.expect("anything more", timeout_s=120)


def test_two_boards_match(bench: Bench) -> None:
    """The rule by which a board on a cable is found, over the ports that arduino-cli sees."""
    with in_stage("board"):
        choose_port(list_ports(bench.cli), bench.board, address=None, serial_number=None)


def test_hang_session(bench: Bench) -> None:
    """Runs until it is interrupted; says through a file that it got so far."""
    dut = boot(bench, "silent")
    Path(os.environ["FAULT_MARK"]).touch()
    dut.expect("a word", timeout_s=300)


def test_hang_build(bench: Bench) -> None:
    """A sketch that no cache has, so that it is compiled."""
    fresh = sketch("silent")
    text = f"// {os.environ['FAULT_MARK']}\n".encode()
    bench.firmware(fresh.with_files({"note.h": text}), with_library=False)


def test_fills_the_disk(bench: Bench) -> None:
    bench.firmware(sketch("flash_overflow").replacing("8 * 1024", "64 * 1024"), with_library=False)


def test_floods(bench: Bench) -> None:
    boot(bench, "flood").expect("a word that it never says", timeout_s=60)
