"""The lines that people read about a core, with and without an ELF."""

from __future__ import annotations

import struct
from dataclasses import replace

from harness.autopsy.chip import FRAME, Autopsy
from harness.autopsy.story import crash_of, story
from harness.autopsy.symbols import Symbols, read_symbols
from tests.unit.small_elf import arm_elf

BASE = 0x10000000
BL = struct.pack("<HH", 0xF7FF, 0xFFF6)
# A call ends at 0x14, another one at 0x24.
NAMED = read_symbols(
    arm_elf(
        bytes(16) + BL + bytes(12) + BL + bytes(12),
        {"read_sensor": (BASE + 1, 16), "loop": (BASE + 0x11, 16), "main": (BASE + 0x21, 16)},
    ),
    "a.elf",
)
VALUES = (1, 2, 3, 0xDEAD0000, 12, BASE + 0x15, BASE + 4, 0x61000000)
CRASHED = Autopsy(
    registers={"r13": 0x38000000, "r14": 0xFFFFFFF9, "r15": BASE + 0x64, "xpsr": 0x61000003},
    cfsr=0x8200,
    hfsr=1 << 30,
    fault_address=0xDEAD0000,
    frame=dict(zip(FRAME, VALUES, strict=True)),
    stack=(5, BASE + 0x15, BASE + 0x25, BASE + 0x25, 0x38000001, BASE + 8 + 1),
)
WHY = "hard fault handler: precise data bus error at 0xdead0000"
STACKED = (
    "r0=0x00000001 r1=0x00000002 r2=0x00000003 r3=0xdead0000 r12=0x0000000c"
    " lr=0x10000015 pc=0x10000004 xpsr=0x61000000"
)
PARKED = Autopsy(
    registers={"r13": 1 << 28, "r14": BASE + 0x15, "r15": BASE + 2, "xpsr": 1 << 24, "primask": 1},
    cfsr=0,
    hfsr=0,
    fault_address=None,
    frame=None,
    stack=(BASE + 0x25,),
)  # fmt: skip


def test_a_crash_is_told_with_reason_address_place_and_caller() -> None:
    assert story(CRASHED, NAMED) == (
        f"the core is in the {WHY}, in read_sensor+0x4, called from loop+0x2",
        "calls found on the stack: main+0x2",
        "CFSR=0x00008200 HFSR=0x40000000",
        f"stacked: {STACKED}",
    )


def test_without_an_elf_it_tells_addresses_and_says_why() -> None:
    lines = story(CRASHED, Symbols(problem="no ELF is known"))
    assert lines[0] == (
        "the core is in the hard fault handler: precise data bus error at 0xdead0000, at 0x10000004"
    )
    assert lines[1] == "addresses are not named: no ELF is known"
    assert story(CRASHED)[1].startswith("CFSR=")


def test_a_parked_core_is_told_with_what_keeps_interrupts_off() -> None:
    lines = story(PARKED, NAMED)
    assert lines[0] == "the core is in thread mode, in read_sensor+0x2, called from loop+0x2"
    assert lines[1] == "interrupts are masked (PRIMASK=0x1), as where a core is parked"
    assert lines[2] == "calls found on the stack: main+0x2"
    assert "r15=0x10000002" in lines[-1]


def test_a_function_that_has_called_another_is_not_its_own_caller() -> None:
    seen = replace(PARKED, registers={**PARKED.registers, "r15": BASE + 0x16})
    assert story(seen, NAMED)[0] == "the core is in thread mode, in loop+0x6"


def test_a_core_in_lockup_is_told_as_such() -> None:
    seen = replace(CRASHED, registers={**CRASHED.registers, "r15": 0xEFFFFFFE})
    assert story(seen)[0].startswith(
        "the core has locked up: it faulted in its fault handler: prec"
    )
    crash = crash_of(seen)
    assert crash is not None
    assert crash.why.startswith("locked up, it faulted in its fault handler: precise")


def test_a_fault_whose_frame_is_lost_is_told_from_where_the_handler_stands() -> None:
    seen = replace(CRASHED, frame=None)
    assert story(seen)[0].endswith("; the frame of the fault was not found on the stack")
    crash = crash_of(seen)
    assert crash is not None
    assert "at pc 0x10000064, lr 0xfffffff9" in crash.why


def test_a_fault_without_a_reason_is_told() -> None:
    seen = replace(CRASHED, cfsr=0, hfsr=0, fault_address=None)
    assert story(seen)[0].startswith(
        "the core is in the hard fault handler: a fault without a reason in CFSR, at 0x10000004"
    )


def test_what_zephyr_takes_away_is_told() -> None:
    seen = replace(CRASHED, cfsr=0, hfsr=0, fault_address=None)
    assert story(seen)[1].startswith("where Zephyr runs, its fault handler clears CFSR")
    assert not any("Zephyr" in line for line in story(CRASHED))


RUNTIME = read_symbols(
    arm_elf(
        bytes(16) + BL + bytes(12) + BL + bytes(12),
        {"et_pal_abort": (BASE + 1, 16), "check": (BASE + 0x11, 16), "main": (BASE + 0x21, 16)},
    ),
    "a.elf",
)


def test_a_fatal_assertion_is_a_crash_where_symbols_show_it() -> None:
    assert story(PARKED, RUNTIME)[1] == (
        "the core has given up: et_pal_abort is where a fatal assertion of the runtime ends"
    )
    crash = crash_of(PARKED, RUNTIME)
    assert crash is not None
    assert crash.why == (
        "it has given up, et_pal_abort is where a fatal assertion of the runtime ends"
        " at pc 0x10000002, lr 0x10000015, in et_pal_abort+0x2, called from check+0x2"
    )
    assert crash.evidence[0].startswith("interrupts are masked (PRIMASK=0x1)")
    assert crash_of(PARKED) is None


def test_a_fault_handler_that_ends_in_the_systems_halt_keeps_the_faults_reason() -> None:
    crash = crash_of(CRASHED, RUNTIME)
    assert crash is not None
    assert crash.why.startswith("precise data bus error")


def test_a_crash_names_its_place_only_where_an_elf_does() -> None:
    bare, named = crash_of(CRASHED), crash_of(CRASHED, NAMED)
    assert bare is not None
    assert named is not None
    assert named.why == f"{bare.why}, in read_sensor+0x4, called from loop+0x2"
    assert named.evidence == (*bare.evidence, "calls found on the stack: main+0x2")


def test_a_core_that_runs_or_is_parked_has_not_crashed() -> None:
    assert crash_of(PARKED, NAMED) is None
