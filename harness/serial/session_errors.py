"""How a conversation with a board ends badly; each is pexpect's exception as well."""

from __future__ import annotations

import pexpect

from harness.errors import DeviceError, DutFailure
from harness.serial.byte_stream import StreamGone
from harness.serial.transcript import Transcript


class ExpectTimeout(DutFailure, pexpect.TIMEOUT):
    """The board spoke, or has spoken before, and what was expected did not come in time.

    Cause: sketch, model or library, or a fatal assertion, which parks a board in silence.
    Remedy: read the conversation in the evidence from its end.
    """


class BoardSilent(DeviceError, pexpect.TIMEOUT):
    """Not one byte has come over the port since it was opened.

    Cause: nothing flashed, a dead firmware, a wrong port, or output that goes elsewhere.
    Remedy: in the message.
    """


class StreamEnded(StreamGone, pexpect.EOF):
    """The stream ended before what was expected came."""


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
