"""The OpenOCD that runs on a board's Linux side: its command lines and what it prints.

Each command is a ``-c`` of its own.  Since 0.11 OpenOCD prints only what the last command of a
``-c`` returns (src/helper/command.c, command_run_line), so that the bytes of
``-c "init; mdb ...; shutdown"`` are never seen.  Everything it prints goes to standard error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.autopsy.chip import FAULT_REGISTERS, FAULT_WORDS, STACK_WORDS
from harness.backdoor.adb_errors import SHOWN_LINES, shown_lines
from harness.boards.board import LinuxSide
from harness.errors import DeviceError
from harness.process import Completed

TIMEOUT_S = 30.0
"""Bit-banged SWD reads some KB a second; finding the chip takes about one."""

ENDED = "shutdown command invoked"
"""OpenOCD's line when it has come to the end of the command line (src/server/server.c)."""

RESET = "init; reset run; shutdown"
"""As documented for resetting a Uno Q by hand: one line, nothing of which has to be printed."""


class OpenOcdFailed(DeviceError):
    """OpenOCD on the board did not do what it was asked.  Remedy: in the message."""


def prefix(side: LinuxSide) -> tuple[str, ...]:
    """How it is started: the documented form, with the first script folder only."""
    return (side.openocd, "-s", side.script_dirs[0], "-f", side.config)


def reset_words(side: LinuxSide) -> tuple[str, ...]:
    """Start the chip anew."""
    return (*prefix(side), "-c", RESET)


def read_words(side: LinuxSide, address: int, nbytes: int) -> tuple[str, ...]:
    """Read memory while the chip goes on."""
    return _commands(side, ("init", f"mdb {address:#010x} {nbytes}", "shutdown"))


def read_and_reset_words(side: LinuxSide, address: int, nbytes: int) -> tuple[str, ...]:
    """Read memory, then start the chip anew."""
    return _commands(side, ("init", f"mdb {address:#010x} {nbytes}", "reset run", "shutdown"))


def look_words(side: LinuxSide, stacks: Sequence[int]) -> tuple[str, ...]:
    """Stop the chip, read registers, fault status and ``stacks``, and let it go on."""
    reads = [f"mdw {address:#010x} {STACK_WORDS}" for address in stacks]
    fault = f"mdw {FAULT_REGISTERS:#010x} {FAULT_WORDS}"
    return _commands(side, ("init", "halt", "reg", fault, *reads, "resume", "shutdown"))


def resume_words(side: LinuxSide) -> tuple[str, ...]:
    """Let the chip go on: after a look that failed half-way, which leaves it stopped."""
    return _commands(side, ("init", "resume", "shutdown"))


def _commands(side: LinuxSide, commands: Iterable[str]) -> tuple[str, ...]:
    return (*prefix(side), *(word for each in commands for word in ("-c", each)))


def output(done: Completed) -> str:
    """Both streams as one text: an old adbd gives both as one, and with a terminal's line ends."""
    return (done.stdout + "\n" + done.stderr).replace("\r", "")


def check(done: Completed, doing: str, side: LinuxSide) -> str:
    """What it printed; raises :class:`OpenOcdFailed` unless it came to its end.

    An old adbd gives exit code 0 for everything, so the line that OpenOCD prints at its end counts
    as well.
    """
    text = output(done)
    if ENDED in text or (done.ok and "Error:" not in text):
        return text
    raise _failure(text, done.returncode, doing, side)


def _failure(text: str, code: int, doing: str, side: LinuxSide) -> OpenOcdFailed:
    lines = [line for line in text.splitlines() if line.strip() and not _IDLE.match(line)]
    evidence = shown_lines("\n".join(lines[-SHOWN_LINES:]))
    for pattern, problem, remedy in _KNOWN:
        if re.search(pattern, text):
            return OpenOcdFailed(
                f"{doing} through the board's OpenOCD failed: {problem.format(side=side)}",
                remedy=remedy.format(side=side),
                evidence=evidence,
            )
    # The last complaint is the cause: those before it are of what OpenOCD went on after.
    errors = [line for line in evidence if "Error:" in line] or list(evidence[-1:])
    said = errors[-1].rpartition("Error: ")[2] if errors else "it said nothing"
    return OpenOcdFailed(
        f"{doing} through the board's OpenOCD failed with exit code {code}: {said}",
        remedy="try again; if it stays so, reset the board by its power, and update its image",
        evidence=evidence,
    )


_IDLE = re.compile(r"Open On-Chip Debugger|Licensed under|For bug reports|\s+http|Info :|Warn :")
"""OpenOCD's banner, and lines that are no complaint."""

_KNOWN = (
    (
        r"(?i)openocd: (?:inaccessible or )?(?:not found|no such file)|exec .*openocd",
        "there is no program {side.openocd!r}",
        "update the board's Linux image: the bench needs the OpenOCD that comes with it",
    ),
    (
        r"(?i)can't find (?:.*openocd_gpiod|.*\.cfg)",
        "its configuration {side.config!r} is not in {side.script_dirs[0]!r}",
        "update the board's Linux image: the bench needs the OpenOCD that comes with it",
    ),
    (
        r"(?i)address already in use|resource busy",
        "another debugger or upload is at work on the board",
        "wait until it has ended, or end it; 'adb shell pgrep -a openocd' shows it",
    ),
    (
        r"(?i)permission denied|operation not permitted",
        "it may not use the pins of the debugger",
        "check the groups of the board's adb user, or update the board's Linux image",
    ),
    (
        r"(?i)error connecting DP|cannot read IDR|examination failed|not examined",
        "the chip does not answer its debugger",
        "reset the board by its power: a chip in deep sleep or with its pins taken is not seen",
    ),
    (
        r"(?i)failed to read memory|memory read failed|failed to read (?:at|mem)",
        "the chip's memory there cannot be read",
        "ask for an address inside its flash, RAM or registers; a chip held in reset has none",
    ),
)
"""Texts of OpenOCD (or of the board's shell), what they mean, what to do."""


def parse_memory(text: str, address: int, nbytes: int, *, width: int = 1) -> bytes:
    """The bytes that ``mdb`` (``width`` 1) or ``mdw`` (4) printed from ``address`` on.

    Raises :class:`OpenOcdFailed` when they are not all there.
    """
    found: dict[int, bytes] = {}
    digits = 2 * width
    line = re.compile(rf"^\s*0x([0-9a-fA-F]{{8,16}}): ((?:[0-9a-fA-F]{{{digits}}}[ \t]*)+)$", re.M)
    for match in line.finditer(text):
        at = int(match[1], 16)
        for number, value in enumerate(match[2].split()):
            found[at + number * width] = int(value, 16).to_bytes(width, "little")
    data = b"".join(found.get(each, b"") for each in range(address, address + nbytes, width))
    if len(data) != nbytes:
        raise OpenOcdFailed(
            f"the board's OpenOCD printed {len(data)} of {nbytes} bytes at {address:#010x}",
            remedy="try again; if it stays so, its version prints in a way the bench does not know",
            evidence=shown_lines(text),
        )
    return data


_NAMES = {"sp": "r13", "lr": "r14", "pc": "r15"}


def parse_registers(text: str) -> dict[str, int]:
    """The registers in the output of ``reg``, by lower-case name; sp, lr and pc as r13 to r15.

    One without a value, which was not read, is left out.  Raises :class:`OpenOcdFailed` when those
    without which nothing can be said are missing.
    """
    line = re.compile(r"^\s*\(\d+\) (\w+) \(/(\d+)\): 0x([0-9a-fA-F]{1,16})\b", re.M)
    registers: dict[str, int] = {}
    for name, bits, value in line.findall(text):
        key = name.lower()
        if int(bits) <= 32:
            registers.setdefault(_NAMES.get(key, key), int(value, 16))
    if missing := [name for name in ("r13", "r15", "xpsr") if name not in registers]:
        raise OpenOcdFailed(
            f"the board's OpenOCD printed no registers {', '.join(missing)}",
            remedy="try again; if it stays so, its version prints in a way the bench does not know",
            evidence=shown_lines(text),
        )
    return registers
