"""A test file of somebody else's repository, copied into one by the tests beside it."""

from __future__ import annotations

import pytest

from harness.errors import CapabilityMissing, DeviceError
from harness.pipeline import Bench
from harness.serial.session import Session


@pytest.mark.hil_sketch("greeter")
def test_greets(dut: Session) -> None:
    dut.expect("hello from a stranger's sketch", timeout_s=20)


@pytest.mark.hil_sketch("greeter")
def test_fails_with_hostile_words(dut: Session) -> None:
    dut.expect("end of it", timeout_s=20)
    assert not dut.received_since_boot(), f"it said {dut.received_since_boot()}"


@pytest.mark.hil_sketch("greeter")
def test_expects_what_never_comes(dut: Session) -> None:
    dut.expect("end of it", timeout_s=20)
    dut.expect("more", timeout_s=0.2)


@pytest.mark.hil_sketch("greeter")
def test_prints_what_the_device_said(dut: Session) -> None:
    dut.expect("end of it", timeout_s=20)
    print(dut.received_since_boot().encode().decode("unicode_escape"))
    raise DeviceError("the cable\nis \x1b[31mbad", remedy="take another one")


@pytest.mark.timeout(2)
@pytest.mark.hil_sketch("greeter")
def test_hangs(dut: Session) -> None:
    dut.expect("more", timeout_s=600)


def test_is_skipped(bench: Bench) -> None:
    raise CapabilityMissing(f"{bench.board.name} has no\nlaser", remedy="buy one")


def test_is_broken(bench: Bench) -> None:
    raise ValueError(f"no {bench.board.name}")


@pytest.mark.xfail(reason="known", strict=True)
def test_fails_as_expected(bench: Bench) -> None:
    assert bench.board.name == "another"


@pytest.mark.hil_sketch("long_line")
def test_ten_megabytes_without_a_newline(dut: Session) -> None:
    dut.expect("end of the line", timeout_s=60)
    assert dut.bytes_since_boot > 10 * 1024 * 1024


@pytest.mark.hil_sketch("crash")
def test_crashes(dut: Session) -> None:
    dut.expect("what a crashed board does not say", timeout_s=60)


def test_forgets_its_sketch(dut: Session) -> None:
    raise AssertionError("never gets here", dut)
