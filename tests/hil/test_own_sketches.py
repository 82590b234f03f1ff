"""The bench's own sketches: they need no library, so they prove the way to the board alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.arduino.build import Firmware
from harness.arduino.sketch import read_sketch
from harness.boards.board import Lane
from harness.errors import CapabilityMissing
from harness.paths import sketches_dir
from harness.pipeline import Bench
from harness.report.run_record import Measurement
from harness.serial.session import Session


@pytest.fixture
def own_sketch(request: pytest.FixtureRequest) -> str:
    """Name of one of the bench's sketches."""
    name: str = request.param
    return name


@pytest.fixture
def firmware(bench: Bench, own_sketch: str) -> Firmware:
    """The sketch, compiled: the board still runs whatever it ran before."""
    return bench.firmware(read_sketch(sketches_dir() / own_sketch), with_library=False)


@pytest.mark.parametrize("own_sketch", ["echo"], indirect=True)
def test_echo(dut: Session, firmware: Firmware, measurement: Measurement) -> None:
    measurement.flash_bytes = firmware.footprint.flash_bytes
    measurement.ram_bytes = firmware.footprint.ram_bytes
    dut.expect("echo ready", timeout_s=20)
    for word in ("one", "two", "x" * 300):
        dut.write_line(word)
        dut.expect_exact(f"echo: {word}", timeout_s=20)
    measurement.output = "3 lines came back"


@pytest.fixture
def own_core(bench: Bench) -> None:
    """A board that runs the bench's own Arduino core: nothing has been done to it yet."""
    if bench.board.lane is Lane.HARDWARE and not bench.request.virtual:
        raise CapabilityMissing(
            f"board {bench.board.name!r} runs Arduino's own core, and these values are those of the"
            " bench's",
            remedy="nothing to do: what its core prints is shown by the examples",
        )


@pytest.mark.usefixtures("own_core")
@pytest.mark.parametrize("own_sketch", ["conformance"], indirect=True)
def test_the_core_prints_and_parses_as_arduino_does(
    dut: Session, firmware: Firmware, measurement: Measurement
) -> None:
    measurement.flash_bytes = firmware.footprint.flash_bytes
    measurement.ram_bytes = firmware.footprint.ram_bytes
    dut.expect(r"constructors=abc\r\n", timeout_s=20)
    dut.expect(r"done=(\d+)\r\n", timeout_s=20)
    assert isinstance(dut.match, re.Match)
    printed = dict(
        line.split("=", 1)
        for line in ("constructors=abc\n" + dut.before.decode("ascii")).splitlines()
        if "=" in line
    )
    wanted = read_values(sketches_dir() / "conformance" / "values.txt")
    wrong = {
        name: (printed.get(name), value)
        for name, value in wanted.items()
        if printed.get(name) != value
    }
    assert not wrong, f"printed and expected: {wrong}"
    assert set(printed) == set(wanted)
    assert int(dut.match[1]) == len(printed)
    measurement.output = f"{len(printed)} values as expected"


def read_values(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    values = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    assert len(values) > 50, f"{path} is not the list of expected values"
    return values
