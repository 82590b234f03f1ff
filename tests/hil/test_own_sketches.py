"""The bench's own sketches: they need no library, so they prove the way to the board alone."""

from __future__ import annotations

import pytest

from harness.arduino.build import Firmware
from harness.arduino.sketch import read_sketch
from harness.paths import sketches_dir
from harness.pipeline import Bench
from harness.report.run_record import Measurement
from harness.serial.session import Session


@pytest.fixture
def firmware(bench: Bench) -> Firmware:
    """The echo sketch, compiled: the board still runs whatever it ran before."""
    return bench.firmware(read_sketch(sketches_dir() / "echo"), with_library=False)


@pytest.mark.hil_subject("echo")
def test_echo(dut: Session, firmware: Firmware, measurement: Measurement) -> None:
    measurement.flash_bytes = firmware.footprint.flash_bytes
    measurement.ram_bytes = firmware.footprint.ram_bytes
    dut.expect("echo ready", timeout_s=20)
    for word in ("one", "two", "x" * 300):
        dut.write_line(word)
        dut.expect_exact(f"echo: {word}", timeout_s=20)
    measurement.output = "3 lines came back"
