from __future__ import annotations

from dataclasses import replace

from harness.autopsy.chip import Autopsy
from harness.autopsy.story import crash_of

FRAME = dict(
    zip(
        ("r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr"),
        (1, 2, 3, 0xDEAD0000, 12, 0x10000741, 0x10000188, 0x61000000),
        strict=True,
    )
)
CRASHED = Autopsy(
    registers={"r15": 0x10000064},
    cfsr=0x8200,
    hfsr=1 << 30,
    fault_address=0xDEAD0000,
    frame=FRAME,
)


def test_a_core_in_its_fault_handler_is_told_with_place_and_address() -> None:
    crash = crash_of(CRASHED)
    assert crash is not None
    assert crash.why == (
        "precise data bus error, bus fault address valid, forced hard fault"
        " at pc 0x10000188, lr 0x10000741, address 0xdead0000"
    )
    assert crash.evidence[0] == "CFSR=0x00008200 HFSR=0x40000000"
    assert "r3=0xdead0000" in crash.evidence[1]


def test_a_core_that_runs_has_not_crashed() -> None:
    # CFSR keeps its bits until somebody clears them: alone it says nothing of now.
    assert crash_of(replace(CRASHED, frame=None)) is None


def test_a_fault_without_a_reason_is_a_crash_all_the_same() -> None:
    crash = crash_of(replace(CRASHED, cfsr=0, hfsr=0, fault_address=None))
    assert crash is not None
    assert crash.why.startswith("fault without a reason in CFSR at pc 0x10000188")
