"""An autopsy told to people: where the core stands, why, and who called whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.autopsy.chip import FRAME, Autopsy
from harness.autopsy.symbols import Place, Symbols, demangled
from harness.serial.witness import Crash

MOST_CALLERS = 6
"""How many return addresses of the stack are told; deeper ones are rarely of use."""

PARKED: Mapping[str, str] = {
    "et_pal_abort": "where a fatal assertion of the runtime ends",
    "abort": "where a failed assert() or an uncaught exception ends",
    "_exit": "where abort(), a failed assert() or an uncaught exception ends",
    "__assert_func": "where a failed assert() ends",
    "assert_post_action": "where a failed assertion of Zephyr ends",
    "arch_system_halt": "where Zephyr stops after a fatal error",
    "k_sys_fatal_error_handler": "where Zephyr stops after a fatal error",
    "k_fatal_halt": "where Zephyr stops after a fatal error",
    "z_fatal_error": "where Zephyr handles a fatal error",
}
"""Functions that never return: a core that stands there, or in what they call, has given up.

Sources: ExecuTorch's Arduino PAL; the virtual boards' core; Zephyr's kernel/fatal.c and
lib/os/assert.c.
"""

NO_REASON = "a fault without a reason in CFSR"
CLEARED = "where Zephyr runs, its fault handler clears CFSR once it has told its own console why"
"""Source: Zephyr's arch/arm/core/cortex_m/fault.c."""

GENERAL = tuple(f"r{number}" for number in range(16))
NO_SYMBOLS = Symbols()


def story(seen: Autopsy, symbols: Symbols = NO_SYMBOLS) -> tuple[str, ...]:
    """What ``seen`` says, in evidence lines; without symbols it tells addresses."""
    lines = [_first_line(seen, symbols)]
    if seen.in_fault_handler and not seen.reasons:
        lines.append(CLEARED)
    if (end := _parked(seen, symbols)) is not None:
        lines.append(f"the core has given up: {end}")
    lines += _mask_line(seen)
    callers = list(_callers(seen, symbols))
    if callers:
        # Words of the stack that look so: calls that have returned long ago leave them as well.
        lines.append(f"calls found on the stack: {', '.join(map(str, callers))}")
    if symbols.problem is not None:
        lines.append(f"addresses are not named: {symbols.problem}")
    return demangled((*lines, *_registers(seen)))


def crash_of(seen: Autopsy, symbols: Symbols = NO_SYMBOLS) -> Crash | None:
    """What the registers say, when they are those of a core that will not go on.

    It stands in a fault handler, has locked up, or is parked where the runtime, the C library or
    the system ends after a fatal error; the last is only seen with symbols.
    """
    end = _parked(seen, symbols)
    if seen.frame is None and not seen.in_fault_handler and not seen.locked_up and end is None:
        return None
    why = ", ".join(seen.faults) or "fault without a reason in CFSR"
    if end is not None and not seen.in_fault_handler:
        why = f"it has given up, {end}"
    if seen.locked_up:
        why = f"locked up, it faulted in its fault handler: {why}"
    where = f" at pc {seen.pc:#010x}, lr {seen.lr:#010x}"
    address = f", address {seen.fault_address:#010x}" if seen.fault_address is not None else ""
    place = _placed(seen, symbols)
    named, *evidence = demangled(
        (place, *_mask_line(seen), *_registers(seen), *_call_line(seen, symbols))
    )
    return Crash(f"{why}{where}{address}{named}", tuple(evidence))


def _mask_line(seen: Autopsy) -> tuple[str, ...]:
    if not seen.masks:
        return ()
    return (f"interrupts are masked ({', '.join(seen.masks)}), as where a core is parked",)


def _call_line(seen: Autopsy, symbols: Symbols) -> tuple[str, ...]:
    callers = list(_callers(seen, symbols))
    return (f"calls found on the stack: {', '.join(map(str, callers))}",) if callers else ()


def _first_line(seen: Autopsy, symbols: Symbols) -> str:
    at = _placed(seen, symbols) or f", at {seen.pc:#010x}"
    if seen.locked_up:
        state = "the core has locked up: it faulted in its fault handler"
    else:
        state = f"the core is in {'the ' if seen.exception else ''}{seen.mode}"
    if not seen.in_fault_handler and not seen.locked_up:
        return f"{state}{at}"
    why = ", ".join(seen.reasons) or NO_REASON
    if seen.fault_address is not None:
        why += f" at {seen.fault_address:#010x}"
    if seen.frame is None:
        at += "; the frame of the fault was not found on the stack"
    return f"{state}: {why}{at}"


def _parked(seen: Autopsy, symbols: Symbols) -> str | None:
    """What ends where the core stands, or where it was called from; None elsewhere."""
    here, caller = symbols.place(seen.pc), symbols.caller(seen.lr)
    for name in (here.function, None if caller is None else caller.function):
        if name is not None and name in PARKED:
            return f"{name} is {PARKED[name]}"
    return None


def _placed(seen: Autopsy, symbols: Symbols) -> str:
    """``", in read_sensor (file.cpp:12), called from loop (x.ino:3)"``, or nothing."""
    here = symbols.place(seen.pc)
    if here.function is None:
        return ""
    caller = symbols.caller(seen.lr)
    if caller is None or caller.function == here.function:
        # A function that has called others has its own address in lr: its caller is on the stack.
        return f", in {here}"
    return f", in {here}, called from {caller}"


def _callers(seen: Autopsy, symbols: Symbols) -> Iterable[Place]:
    """Calls that the words on the stack would return to, the innermost first; not the one in lr."""
    told = 0
    before = str(symbols.caller(seen.lr))
    for word in seen.stack:
        place = symbols.caller(word)
        if place is not None and str(place) != before:
            yield place
            before = str(place)
            told += 1
            if told == MOST_CALLERS:
                return


def _registers(seen: Autopsy) -> tuple[str, ...]:
    lines = [f"CFSR={seen.cfsr:#010x} HFSR={seen.hfsr:#010x}"]
    if seen.frame is not None:
        lines.append("stacked: " + " ".join(f"{name}={seen.frame[name]:#010x}" for name in FRAME))
    else:
        known = [name for name in (*GENERAL, "xpsr") if name in seen.registers]
        lines.append(" ".join(f"{name}={seen.registers[name]:#010x}" for name in known))
    return tuple(lines)
