"""Registers, fault status and stacks decoded: one decoding for emulated and real chips."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.autopsy.chip import (
    CFSR_BITS,
    STACK_WORDS,
    Autopsy,
    decode,
    find_frame,
    stack_pointers,
)

FRAME = (1, 2, 3, 0xDEAD0000, 12, 0x100000E1, 0x1000005A, 0x61000000)
IN_HANDLER = {"r13": 0x3807FFD8, "r14": 0xFFFFFFF9, "r15": 0x10000064, "xpsr": 0x61000003}
IN_THREAD = {"r13": 0x3807FFD8, "r14": 0x10000011, "r15": 0x10000020, "xpsr": 0x61000000}
NO_FAULT = (0, 0, 0, 0, 0)
BUS_FAULT = (0x8200, 0x40000000, 0, 0, 0xDEAD0000)


def padded(*words: int) -> tuple[int, ...]:
    return (*words, *(0,) * (STACK_WORDS - len(words)))


def test_frame_is_found_below_what_the_handler_pushed() -> None:
    found = find_frame((0x10000065, 0xFFFFFFF9, *FRAME, 0, 0))
    assert found is not None
    assert found["pc"] == 0x1000005A
    assert found["r12"] == 12
    assert find_frame((0,) * 12) is None
    assert find_frame(()) is None


def test_fault_is_said_in_words() -> None:
    seen = decode(IN_HANDLER, BUS_FAULT, {})
    assert seen.faults == ("precise data bus error", "bus fault address valid", "forced hard fault")
    assert seen.reasons == ("precise data bus error",)
    assert seen.fault_address == 0xDEAD0000
    assert seen.pc == 0x10000064
    assert (seen.in_fault_handler, seen.mode) == (True, "hard fault handler")


def test_a_faulting_sketch_stands_where_its_frame_says() -> None:
    seen = decode(IN_HANDLER, BUS_FAULT, {IN_HANDLER["r13"]: padded(7, *FRAME, 0x11, 0x22)})
    assert (seen.pc, seen.lr) == (0x1000005A, 0x100000E1)
    assert seen.stack[:2] == (0x11, 0x22)


def test_a_threads_frame_is_on_the_process_stack() -> None:
    # As under an RTOS: the handler runs on the main stack, which has an old frame of its own.
    old = (9, 9, 9, 9, 9, 0x10000201, 0x10000200, 0x01000000)
    stacks = {0x3807FFD8: padded(*old), 0x38001000: padded(*FRAME, 0x33)}
    of_thread = {**IN_HANDLER, "psp": 0x38001000, "r14": 0xFFFFFFFD}
    assert decode(of_thread, BUS_FAULT, stacks).pc == 0x1000005A
    assert decode(of_thread, BUS_FAULT, stacks).stack[0] == 0x33
    # The handler has called something: EXC_RETURN is among what it pushed.
    called = {**of_thread, "r14": 0x10000065}
    stacks[0x3807FFD8] = padded(0xFFFFFFFD, *old)
    assert decode(called, BUS_FAULT, stacks).pc == 0x1000005A
    # It came from the main stack: that one is searched first.
    of_main = {**of_thread, "r14": 0xFFFFFFF9}
    assert decode(of_main, BUS_FAULT, stacks).pc == 0x10000200


def test_a_stack_that_could_not_be_read_leaves_the_handlers_place() -> None:
    seen = decode(IN_HANDLER, BUS_FAULT, {})
    assert seen.frame is None
    assert seen.in_fault_handler


def test_a_thread_has_no_frame_whatever_its_stack_holds() -> None:
    seen = decode(IN_THREAD, NO_FAULT, {IN_THREAD["r13"]: padded(*FRAME)})
    assert seen.frame is None
    assert (seen.pc, seen.mode, seen.exception) == (0x10000020, "thread mode", 0)
    assert seen.stack[:8] == FRAME


@pytest.mark.parametrize(
    ("faults", "address"),
    [
        ((0x8200, 0, 0, 0x11, 0x22), 0x22),
        ((0x0082, 0, 0, 0x11, 0x22), 0x11),
        ((0x0400, 0, 0, 0x11, 0x22), None),
    ],
)
def test_an_address_counts_only_where_its_bit_is_set(
    faults: tuple[int, ...], address: int | None
) -> None:
    assert decode(IN_HANDLER, faults, {}).fault_address == address


def test_every_bit_has_a_name_of_its_own() -> None:
    seen = replace(decode(IN_HANDLER, NO_FAULT, {}), cfsr=0xFFFFFFFF, hfsr=0xFFFFFFFF)
    assert len(set(seen.faults)) == len(CFSR_BITS) + 2
    assert len(seen.reasons) == len(CFSR_BITS) - 2
    assert decode(IN_HANDLER, (0, 2, 0, 0, 0), {}).reasons == ("vector table could not be read",)


@pytest.mark.parametrize(
    ("xpsr", "mode"),
    [
        (0x01000002, "NMI handler"),
        (0x01000006, "usage fault handler"),
        (0x0100000B, "supervisor call handler"),
        (0x01000010, "handler of interrupt 0"),
        (0x0100003C, "handler of interrupt 44"),
    ],
)
def test_modes_have_names(xpsr: int, mode: str) -> None:
    assert decode({**IN_THREAD, "xpsr": xpsr}, NO_FAULT, {}).mode == mode


def test_what_masks_interrupts_is_told_where_it_is_known() -> None:
    assert decode(IN_THREAD, NO_FAULT, {}).masks == ()
    masked = {**IN_THREAD, "primask": 1, "basepri": 0x20, "faultmask": 0}
    assert decode(masked, NO_FAULT, {}).masks == ("PRIMASK=0x1", "BASEPRI=0x20")


def test_a_core_in_lockup_is_seen() -> None:
    assert decode({**IN_HANDLER, "r15": 0xEFFFFFFE}, BUS_FAULT, {}).locked_up
    assert not decode(IN_HANDLER, BUS_FAULT, {}).locked_up


def test_only_possible_stacks_are_read() -> None:
    assert stack_pointers(IN_THREAD) == (0x3807FFD8,)
    assert stack_pointers({**IN_THREAD, "psp": 0x38001000}) == (0x3807FFD8, 0x38001000)
    assert stack_pointers({**IN_THREAD, "psp": 0x3807FFD8}) == (0x3807FFD8,)
    assert stack_pointers({**IN_THREAD, "psp": 0}) == (0x3807FFD8,)
    assert stack_pointers({**IN_THREAD, "psp": 0x38001001}) == (0x3807FFD8,)
    assert stack_pointers({**IN_THREAD, "r13": 0}) == ()


def test_an_autopsy_without_xpsr_says_nothing_of_faults() -> None:
    assert not Autopsy({"r15": 4}, 0, 0, None, None).in_fault_handler
