"""A Cortex-M chip at one moment: registers, fault status, the frame that a fault left on the stack.

Whoever can stop a chip and read it (QEMU, the board's own OpenOCD) fills in the same type, so that
one decoding serves emulated and real boards.  Sources: Armv7-M and Armv8-M reference manuals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FAULT_REGISTERS = 0xE000ED28
"""CFSR, HFSR, DFSR, MMFAR, BFAR, one word each (Armv7-M and Armv8-M reference manuals)."""

FAULT_WORDS = 5

FRAME = ("r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr")
"""What the core pushes when it takes an exception, from the lowest address up."""

STACK_WORDS = 40
"""How many words from the stack pointer up are read: a handler's own, the frame, some callers."""

THUMB = 1 << 24
MASK = 0x1FF
"""IPSR within xPSR: the exception that runs, 0 in thread mode."""

EXCEPTIONS: Mapping[int, str] = {
    1: "reset handler",
    2: "NMI handler",
    3: "hard fault handler",
    4: "memory fault handler",
    5: "bus fault handler",
    6: "usage fault handler",
    7: "secure fault handler",
    11: "supervisor call handler",
    12: "debug monitor",
    14: "PendSV handler",
    15: "system tick handler",
}

FAULTS = range(3, 8)
"""Exceptions that are faults."""

LOCKUP = (0xFFFFFFFE, 0xEFFFFFFE)
"""Where pc stands in a core that faulted in its fault handler (Armv7-M, Armv8-M)."""

EXC_RETURN = range(0xFFFFFF80, 0xFFFFFFFF)
"""Values of lr on entry to a handler (Armv8-M: bits 31 to 7 are ones)."""

ON_PROCESS_STACK = 1 << 2
"""Within EXC_RETURN: the frame is on the process stack, as that of an RTOS thread is."""

CFSR_BITS: Mapping[int, str] = {
    0: "instruction access violation",
    1: "data access violation",
    3: "memory fault on exception return",
    4: "memory fault on exception entry",
    5: "memory fault while saving floating-point state",
    7: "memory fault address valid",
    8: "instruction bus error",
    9: "precise data bus error",
    10: "imprecise data bus error",
    11: "bus fault on exception return",
    12: "bus fault on exception entry",
    13: "bus fault while saving floating-point state",
    15: "bus fault address valid",
    16: "undefined instruction",
    17: "invalid state",
    18: "invalid program counter on return",
    19: "no coprocessor",
    20: "stack overflow",
    24: "unaligned access",
    25: "division by zero",
}
"""Bits of the Configurable Fault Status Register (Armv8-M reference manual, D1.2.15)."""

ADDRESS_VALID = {7: "MMFAR", 15: "BFAR"}
"""CFSR bits that only say which fault address register holds something."""

HFSR_BITS: Mapping[int, str] = {1: "vector table could not be read", 30: "forced hard fault"}


@dataclass(frozen=True)
class Autopsy:
    """A chip at one moment.  ``frame`` is what the stack held if a fault handler runs, else None.

    Registers are 32-bit values by lower-case name: ``r0`` to ``r15``, ``xpsr``, and, where they can
    be read, ``msp``, ``psp``, ``primask``, ``basepri``, ``faultmask``, ``control``.  ``stack`` is
    words from above the frame, or from the stack pointer on where there is no frame.
    """

    registers: Mapping[str, int]
    cfsr: int
    hfsr: int
    fault_address: int | None
    frame: Mapping[str, int] | None
    stack: tuple[int, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """The fault bits that are set, in words."""
        named = [text for bit, text in CFSR_BITS.items() if self.cfsr >> bit & 1]
        return (*named, *(text for bit, text in HFSR_BITS.items() if self.hfsr >> bit & 1))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Those of :attr:`faults` that say why, without what only accompanies them."""
        kept = [b for b in CFSR_BITS if self.cfsr >> b & 1 and b not in ADDRESS_VALID]
        named = tuple(CFSR_BITS[bit] for bit in kept)
        return named or tuple(text for bit, text in HFSR_BITS.items() if self.hfsr >> bit & 1)

    @property
    def pc(self) -> int:
        """Where the sketch stood: the faulting instruction if it faulted."""
        return self.frame["pc"] if self.frame is not None else self.registers["r15"]

    @property
    def lr(self) -> int:
        """The link register of the code at :attr:`pc`: where it returns to, if it calls nothing."""
        return self.frame["lr"] if self.frame is not None else self.registers.get("r14", 0)

    @property
    def exception(self) -> int:
        """Number of the exception whose handler runs; 0 in thread mode."""
        return self.registers.get("xpsr", 0) & MASK

    @property
    def mode(self) -> str:
        """What the core is in, for people: ``"hard fault handler"``, ``"thread mode"``."""
        if self.exception == 0:
            return "thread mode"
        return EXCEPTIONS.get(self.exception, f"handler of interrupt {self.exception - 16}")

    @property
    def in_fault_handler(self) -> bool:
        """Whether the core stands in a fault handler: where a crashed sketch ends."""
        return self.exception in FAULTS

    @property
    def locked_up(self) -> bool:
        """Whether the core faulted in its fault handler and does nothing any more."""
        return self.registers.get("r15") in LOCKUP

    @property
    def masks(self) -> tuple[str, ...]:
        """What keeps interrupts off, as ``"PRIMASK=0x1"``; empty where nothing is known to."""
        names = ("primask", "faultmask", "basepri")
        seen = [(name, self.registers.get(name, 0)) for name in names]
        return tuple(f"{name.upper()}={value:#x}" for name, value in seen if value)


def stack_pointers(registers: Mapping[str, int]) -> tuple[int, ...]:
    """Where an exception frame may lie: the stack in use, then that of the interrupted thread.

    Only addresses a stack can have: word-aligned and not zero.
    """
    found = [registers["r13"], registers.get("psp", 0)]
    return tuple(dict.fromkeys(each for each in found if each and each % 4 == 0))


def decode(
    registers: Mapping[str, int], faults: Sequence[int], stacks: Mapping[int, Sequence[int]]
) -> Autopsy:
    """What was read, as an autopsy.

    ``faults``: the five words at :data:`FAULT_REGISTERS`.  ``stacks``: words by the address of the
    first, for what could be read of :func:`stack_pointers`.
    """
    cfsr, hfsr, _, mmfar, bfar = faults
    address = bfar if cfsr >> 15 & 1 else mmfar if cfsr >> 7 & 1 else None
    used = tuple(stacks.get(registers["r13"], ()))
    frame, rest = None, used
    if registers["xpsr"] & MASK in FAULTS:
        process = tuple(stacks.get(registers.get("psp", 0), ()))
        for words in _by_likelihood(registers, used, process):
            if (at := _frame_at(words)) is not None:
                frame, rest = _frame(words, at), words[at + len(FRAME) :]
                break
    return Autopsy(registers, cfsr, hfsr, address, frame, rest)


def find_frame(stack: Sequence[int]) -> Mapping[str, int] | None:
    """The exception frame nearest the top of ``stack``; a handler may have pushed above it."""
    at = _frame_at(stack)
    return None if at is None else _frame(stack, at)


def _frame(stack: Sequence[int], at: int) -> Mapping[str, int]:
    return dict(zip(FRAME, stack[at : at + len(FRAME)], strict=True))


def _frame_at(stack: Sequence[int]) -> int | None:
    for at in range(len(stack) - len(FRAME) + 1):
        frame = _frame(stack, at)
        # Thread mode in Thumb state: bit 24 set, no exception number.
        if frame["xpsr"] & (THUMB | MASK) == THUMB and not frame["pc"] & 1 and frame["pc"]:
            return at
    return None


def _by_likelihood(
    registers: Mapping[str, int], used: tuple[int, ...], process: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """The stacks in the order in which they are searched for the frame.

    A handler runs on the main stack; EXC_RETURN, in lr or pushed by the handler, says where the
    core put the frame before.
    """
    marks = [word for word in (registers.get("r14", 0), *used) if word in EXC_RETURN]
    if marks and marks[0] & ON_PROCESS_STACK and process:
        return (process, used)
    return (used, process)
