"""One file lock between processes, with a record of who holds it and why.

The kernel owns the lock (``flock``), so it is free the moment its holder ends, however it ends.
The record in the file is for people: it may be stale and is never used to decide anything.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.clock import Deadline, pause, wall_iso
from harness.errors import BenchError

_LOOK_S = 0.05
"""Seconds between two attempts; flock itself cannot be waited on with a limit."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock: process id, command line, since when (UTC, ISO 8601) and what for."""

    pid: int
    command: str
    since: str
    purpose: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}), {self.purpose}, since {self.since}"


class LockTimeout(BenchError):
    """Another process held the lock for longer than this one would wait.

    Cause: that process is slow, hung, or waits for a person.  Remedy: wait for it, or end it.
    """

    def __init__(self, path: Path, holder: Holder | None, waited_s: float) -> None:
        who = str(holder) if holder is not None else "a process that left no record"
        super().__init__(
            f"the lock {str(path)!r} was not free within {waited_s:g} s: held by {who}",
            remedy=f"wait for process {holder.pid} or end it"
            if holder is not None
            else "find the holder with 'fuser' on that file, and end it",
        )
        self.holder = holder


@contextmanager
def hold(
    path: Path,
    *,
    purpose: str,
    timeout_s: float = 600.0,
    progress: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the lock at ``path`` for the length of the block; its folder and file are created.

    While it waits, ``progress`` is told once for every holder it meets.  Raises
    :class:`LockTimeout` after ``timeout_s`` seconds and :class:`BenchError` when the file system
    has no locks or refuses the file.  Not re-entrant: a second block on the same path waits.
    """
    number = _open(path)
    try:
        _wait(number, path, timeout_s, progress)
        _sign(number, purpose)
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(number, 0)
    finally:
        os.close(number)


@contextmanager
def hold_if_free(path: Path, *, purpose: str) -> Iterator[bool]:
    """Hold the lock for the block if nobody else does; the value says whether it is held."""
    number = _open(path)
    try:
        free = _take(number, path)
        if free:
            _sign(number, purpose)
        try:
            yield free
        finally:
            if free:
                with suppress(OSError):
                    os.ftruncate(number, 0)
    finally:
        os.close(number)


def read_holder(path: Path) -> Holder | None:
    """The record in a lock file, or None where there is none; says nothing on whether it holds."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        return Holder(
            pid=int(raw["pid"]),
            command=str(raw["command"]),
            since=str(raw["since"]),
            purpose=str(raw["purpose"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise BenchError(
            f"cannot open the lock {str(path)!r}: {error.strerror or error}",
            remedy="check that its folder may be written and has room,"
            " or set HIL_CACHE or HIL_RUN_DIR to another one",
        ) from error


def _take(number: int, path: Path) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise BenchError(
            f"cannot lock {str(path)!r}: {error.strerror or error}",
            remedy="put the bench's folders on a file system with locks (HIL_CACHE, HIL_RUN_DIR)",
        ) from error
    return True


def _wait(
    number: int, path: Path, timeout_s: float, progress: Callable[[str], None] | None
) -> None:
    deadline = Deadline.after(timeout_s)
    told: Holder | None = None
    while not _take(number, path):
        holder = read_holder(path)
        if deadline.expired:
            raise LockTimeout(path, holder, timeout_s)
        if progress is not None and holder is not None and holder != told:
            progress(f"waiting for {holder}")
            told = holder
        pause(min(_LOOK_S, deadline.remaining_s))


def _sign(number: int, purpose: str) -> None:
    holder = Holder(
        pid=os.getpid(),
        command=" ".join(sys.argv)[:200] or sys.executable,
        since=wall_iso(),
        purpose=purpose,
    )
    # A full disk must not cost the lock: only the waiter's message gets poorer.
    with suppress(OSError):
        os.ftruncate(number, 0)
        os.pwrite(number, json.dumps(asdict(holder)).encode(), 0)
