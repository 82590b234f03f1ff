"""What an owner answers, read from raw JSON into types or raised as the error it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from harness.emulator.child import Ending
from harness.errors import BenchError, DeviceError, DutFailure, HilError, ToolError, UsageError

KINDS: Mapping[str, type[HilError]] = {
    each.__name__: each for each in (UsageError, ToolError, BenchError, DeviceError)
}


CRASH_SIGNALS = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP"})
"""What a native sketch is ended by for what it did itself."""

LOCKUP = "Lockup"
"""In QEMU's last words when the core faulted inside its own fault handler; QEMU then aborts."""


class ChipState(Enum):
    """What the chip of a virtual board is doing."""

    EMPTY = "empty"
    RUNNING = "running"
    PAUSED = "paused"
    DIED = "died"


@dataclass(frozen=True)
class BoardStatus:
    """A virtual board at one moment; byte counts are since it was plugged in.

    ``emulated``: whether the chip is QEMU's; else the sketch runs as a process of this machine.
    ``stand_in``: whether it stands in for real hardware, behind a model of its Linux side.
    ``flash_writes``: how often firmware was written since then, by whatever way.
    ``since_boot_s``: None while nothing is flashed.  ``ending``: only when the chip died.
    ``sent_bytes_at_boot``: ``sent_bytes`` when it last booted, so that what an earlier firmware
    said can be told from what this one says.  ``pid_of_chip``: the process that plays it, while
    it lives.
    """

    state: ChipState
    emulated: bool
    firmware_sha256: str | None
    firmware_bytes: int | None
    boots: int
    uptime_s: float
    since_boot_s: float | None
    reader: bool
    sent_bytes: int
    sent_bytes_at_boot: int
    received_bytes: int
    dropped_bytes: int
    queued_bytes: int
    pid_of_owner: int
    pid_of_chip: int | None
    ending: Ending | None
    stand_in: bool = False
    flash_writes: int = 0

    def check_alive(self, serial_number: str) -> None:
        """Raise with the evidence when the chip died under the sketch.

        :class:`DutFailure` where the sketch itself brought it down: a native one that crashed or
        ended, an emulated core that locked up.  Otherwise :class:`DeviceError`: the emulator or
        the process was ended by something else, which says nothing of the sketch.
        """
        if self.ending is None:
            return
        if self.emulated and any(LOCKUP in line for line in self.ending.stderr):
            raise DutFailure(
                f"the core of board {serial_number!r} locked up: it faulted in its fault handler",
                remedy="look at the registers in the evidence; a broken stack pointer is usual",
                evidence=self.ending.stderr,
            )
        if not self.emulated and (
            self.ending.signal is None or self.ending.signal in CRASH_SIGNALS
        ):
            raise DutFailure(
                f"the sketch on board {serial_number!r} died: {self.ending.told('it')}",
                remedy="a sketch never ends by itself: run its program under a debugger",
                evidence=self.ending.stderr,
            )
        what = "QEMU" if self.emulated else "its process"
        raise DeviceError(
            f"the chip of board {serial_number!r} died: {self.ending.told(what)}",
            remedy="reset or flash the board; where it is killed again, look for what kills it"
            " (out of memory?)",
            evidence=self.ending.stderr,
        )


def answered(reply: Mapping[str, object], serial_number: str) -> Mapping[str, object]:
    """The reply itself, or the error that it is."""
    if not reply.get("ok"):
        raise_refusal(reply, f"board {serial_number!r}: ")
    return reply


def raise_refusal(reply: Mapping[str, object], prefix: str = "") -> NoReturn:
    """Raise what a reply with ``"ok": false`` says, as the kind of error it names."""
    kind = KINDS.get(str(reply.get("kind")), ToolError)
    raise kind(
        f"{prefix}{reply.get('error') or 'refused without a reason'}",
        remedy=str(reply.get("remedy") or "see the log of the board's owner"),
    )


def read_reply(reply: Mapping[str, object], serial_number: str) -> BoardStatus:
    """A status from its raw reply.  Raises :class:`DeviceError` when a field is not as agreed."""
    try:
        return BoardStatus(
            state=ChipState(reply["state"]),
            emulated=reply["emulated"] is True,
            firmware_sha256=_optional_text(reply["firmware_sha256"]),
            firmware_bytes=_optional_whole(reply["firmware_bytes"]),
            boots=_whole(reply["boots"]),
            uptime_s=_seconds(reply["uptime_s"]),
            since_boot_s=None if reply["since_boot_s"] is None else _seconds(reply["since_boot_s"]),
            reader=reply["reader"] is True,
            sent_bytes=_whole(reply["sent_bytes"]),
            sent_bytes_at_boot=_whole(reply["sent_bytes_at_boot"]),
            received_bytes=_whole(reply["received_bytes"]),
            dropped_bytes=_whole(reply["dropped_bytes"]),
            queued_bytes=_whole(reply["queued_bytes"]),
            pid_of_owner=_whole(reply["pid_of_owner"]),
            pid_of_chip=_optional_whole(reply["pid_of_chip"]),
            ending=_ending(reply["ending"]),
            stand_in=reply.get("stand_in") is True,
            flash_writes=_whole(reply.get("flash_writes", 0)),
        )
    except (KeyError, ValueError) as error:
        raise DeviceError(
            f"board {serial_number!r} answered 'status' with a wrong field: {error}",
            remedy="it belongs to another version of the bench: unplug it and plug it in again",
        ) from error


def _ending(raw: object) -> Ending | None:
    if raw is None:
        return None
    if not isinstance(raw, dict) or not isinstance(raw.get("stderr"), list):
        raise ValueError(f"ending is {raw!r}")
    return Ending(
        exit_code=_optional_whole(raw.get("exit_code")),
        signal=_optional_text(raw.get("signal")),
        stderr=tuple(str(line) for line in raw["stderr"]),
    )


def _whole(raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise ValueError(f"{raw!r} is not a whole number")
    return raw


def _seconds(raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise ValueError(f"{raw!r} is not a number")
    return float(raw)


def _optional_whole(raw: object) -> int | None:
    return None if raw is None else _whole(raw)


def _optional_text(raw: object) -> str | None:
    if raw is not None and not isinstance(raw, str):
        raise ValueError(f"{raw!r} is not text")
    return raw
