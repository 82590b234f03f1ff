"""How a conversation with a board ends badly; each is pexpect's exception as well."""

from __future__ import annotations

import pexpect

from harness.errors import DeviceError, DutFailure, HilError
from harness.serial.byte_stream import StreamGone
from harness.serial.transcript import Transcript, printable
from harness.serial.witness import Crash

REPEATS = 3
"""How often a board's first line must come again before a reset loop is thought of."""


class ExpectTimeout(DutFailure, pexpect.TIMEOUT):
    """The board has spoken since it was flashed, and what was expected did not come in time.

    Cause: sketch, model or library, or a fatal assertion, which parks a board in silence.
    Remedy: read the conversation in the evidence from its end.
    """

    stage = "session"


class BoardSilent(DeviceError, pexpect.TIMEOUT):
    """Not one byte has come since the board was last flashed or reset.

    A *fault*, also where the upload was proven: a firmware that died before its first print, a
    cable, and output that goes to another port look the same from here, so nothing is known of
    what was to be tested.  Where somebody can see that the core crashed it is
    :class:`BoardCrashed` instead.  Remedy: in the message.
    """

    stage = "session"


class BoardCrashed(DutFailure, pexpect.TIMEOUT):
    """The board's core stands in a fault handler: seen, not concluded from silence.

    Cause: sketch or library.  Remedy: find the program counter in the link map.
    """

    stage = "session"


class StreamEnded(StreamGone, pexpect.EOF):
    """The stream ended before what was expected came."""


def described(error: HilError) -> dict[str, object]:
    """An error as plain data, so that a replay can raise it again."""
    return {
        "failed": isinstance(error, DutFailure),
        "message": error.message,
        "remedy": error.remedy,
        "cause": error.cause,
        "evidence": list(error.evidence),
    }


def expect_timeout(
    name: str, wanted: str, when: str, said: bytes, tail: tuple[str, ...]
) -> ExpectTimeout:
    """The error for a board that spoke; ``said`` is all it sent since it was flashed."""
    cause = ""
    repeated = repeated_banner(said)
    if repeated is not None:
        line, times = repeated
        cause = f"it seems to reset in a loop: its first line, {line!r}, came {times} times"
    return ExpectTimeout(
        f"the board on {name!r} did not print {wanted} {when}{'; ' if cause else ''}{cause}",
        cause=cause,
        remedy="read the conversation from its end: a board that stops in the middle has"
        " crashed or failed an assertion, which parks it with interrupts off",
        evidence=tail,
    )


def board_silent(name: str, wanted: str, when: str, tail: tuple[str, ...]) -> BoardSilent:
    """The error for a board that sent nothing since it was flashed."""
    return BoardSilent(
        f"the board on {name!r} sent nothing since it was flashed or reset: {wanted} was expected"
        f" and did not come {when}",
        remedy="check that the sketch prints to this port (on a Uno Q, Serial needs"
        " Arduino_RouterBridge); reset the board; a fatal assertion before the first print is"
        " silent, too",
        evidence=("(no byte was received since then)", *tail),
    )


def board_crashed(name: str, crash: Crash, doing: str, tail: tuple[str, ...]) -> BoardCrashed:
    """The error for a core that was seen in a fault handler."""
    return BoardCrashed(
        f"the board on {name!r} crashed: {crash.why}; {doing}",
        cause="the sketch or the library did what the core forbids",
        remedy="look the program counter up in the link map, or with addr2line in the ELF",
        evidence=(*tail, *crash.evidence),
    )


def repeated_banner(said: bytes) -> tuple[str, int] | None:
    """The first line and how often it came, when that is :data:`REPEATS` times or more.

    Other lines must stand between: a sketch that counts or prints dots repeats its first line too.
    """
    lines = [line.strip() for line in said.split(b"\n") if line.strip()]
    if not lines:
        return None
    # What is left of a line that a reset cut off may stand before the first whole one.
    first = max(lines[:2], key=lines.count)
    times = lines.count(first)
    if times < REPEATS or times == len(lines):
        return None
    return printable(first), times


def broken_reader(name: str, error: Exception) -> DeviceError:
    """The error for a reader that failed by itself."""
    return DeviceError(
        f"reading {name!r} failed inside the bench: {error!r}",
        remedy="this is a fault of the bench: report it with the evidence",
    )


def stream_ended(end: DeviceError, doing: str, transcript: Transcript) -> StreamEnded:
    """``end`` with what was being done and the end of the conversation."""
    return StreamEnded(
        f"{end.message}: {doing}",
        remedy=end.remedy,
        evidence=(*end.evidence, *transcript.tail()),
    )
