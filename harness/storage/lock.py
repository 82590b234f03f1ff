"""One file lock between processes, with a record of who holds it and why.

The kernel owns the lock (``flock``), so it is free the moment its holder ends, however it ends.
The record in the file is for people: it may be stale and is never used to decide anything.  Who
gives a lock back empties it, so a record that is found by the next holder is that of one that did
not.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.clock import Deadline, pause, wall_iso
from harness.errors import BenchError

_LOOK_S = 0.05
"""Seconds between two attempts; flock itself cannot be waited on with a limit."""

_MOST_RECORD_BYTES = 4096

_TRIES = 10
"""How often a shared file that another user just makes, or takes away, is opened again."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock: process id, command line, since when (UTC, ISO 8601), what for, whose.

    ``user`` is empty in records of older versions.
    """

    pid: int
    command: str
    since: str
    purpose: str
    user: str = ""

    def __str__(self) -> str:
        whose = f" of user {self.user!r}" if self.user not in ("", _user()) else ""
        return f"process {self.pid}{whose} ({self.command}), {self.purpose}, since {self.since}"


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
    shared: bool = False,
) -> Iterator[Holder | None]:
    """Hold the lock at ``path`` for the length of the block; its folder and file are created.

    Gives the holder before, where it ended without giving the lock back.  While it waits,
    ``progress`` is told once for every holder it meets.  ``shared``: between all users of the
    machine, in a folder that all may write.  Raises :class:`LockTimeout` after ``timeout_s``
    seconds and :class:`BenchError` when the file system has no locks or refuses the file.  Not
    re-entrant: a second block on the same path waits.
    """
    number = _wait(path, timeout_s, progress, shared)
    try:
        before = read_holder(path)
        _sign(number, purpose)
        try:
            yield before
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


def is_held(path: Path) -> bool:
    """Whether anybody holds the lock at this moment; takes nothing and changes no record."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(number)
    return False


def read_holder(path: Path) -> Holder | None:
    """The record in a lock file, or None where there is none; says nothing on whether it holds."""
    try:
        # Without waiting, should somebody have put a named pipe in its place.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
            raw = json.loads(stream.read(_MOST_RECORD_BYTES).decode("utf-8", "replace"))
        return Holder(
            pid=int(raw["pid"]),
            command=str(raw["command"]),
            since=str(raw["since"]),
            purpose=str(raw["purpose"]),
            user=str(raw.get("user", "")),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _open_shared(path: Path) -> int:
    """A lock file that every user of the machine may open, in a folder that all of them write.

    Never with O_CREAT on a file that is there: the kernel refuses that in a sticky folder when it
    is another user's (fs.protected_regular), and in such a folder anybody may have put anything.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    refused: OSError | None = None
    for _ in range(_TRIES):
        try:
            number = os.open(path, flags)
        except FileNotFoundError:
            try:
                number = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                continue
            except OSError as error:
                raise _cannot_share(path, error.strerror or str(error)) from error
        except PermissionError as error:
            # Its maker may be between making it and opening it to all.
            refused = error
            pause(_LOOK_S)
            continue
        except OSError as error:
            raise _cannot_share(path, error.strerror or str(error)) from error
        facts = os.fstat(number)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            os.close(number)
            raise _cannot_share(path, "it is not a plain file of its own")
        if facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) != 0o666:
            # The umask took something away, now or from one that was killed before it got here.
            with suppress(OSError):
                os.fchmod(number, 0o666)
        return number
    raise _cannot_share(path, str(refused and refused.strerror)) from refused


def _cannot_share(path: Path, why: str) -> BenchError:
    owner = ""
    with suppress(OSError, KeyError):
        owner = f"; it belongs to user {path.owner()!r}"
    return BenchError(
        f"cannot open the lock {str(path)!r}, which all users of this machine share: {why}{owner}",
        remedy="while nobody uses the board, have its owner or root remove that file"
        if owner
        else "check that its folder may be written by all and has room,"
        " or set HIL_LOCK_DIR to another one for every user",
    )


def _open(path: Path, *, shared: bool = False) -> int:
    if shared:
        return _open_shared(path)
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
    path: Path, timeout_s: float, progress: Callable[[str], None] | None, shared: bool
) -> int:
    """The descriptor of the file at ``path``, locked."""
    deadline = Deadline.after(timeout_s)
    told: Holder | None = None
    before: Holder | None = None
    while True:
        number = _open(path, shared=shared)
        try:
            while not _take(number, path):
                holder = read_holder(path)
                if deadline.expired:
                    raise LockTimeout(path, holder, timeout_s)
                # Seen twice: the first look may meet what one before had left, not yet signed over.
                if progress is not None and holder not in (None, told) and holder == before:
                    progress(f"waiting for {holder}")
                    told = holder
                before = holder
                pause(min(_LOOK_S, deadline.remaining_s))
            if _is_file_at(number, path):
                return number
        except BaseException:
            os.close(number)
            raise
        # Somebody tidied the file away while this one waited for it: others lock a new one.
        os.close(number)


def _is_file_at(number: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


def _sign(number: int, purpose: str) -> None:
    holder = Holder(
        pid=os.getpid(),
        command=" ".join(sys.argv)[:200] or sys.executable,
        since=wall_iso(),
        purpose=purpose,
        user=_user(),
    )
    # A full disk must not cost the lock: only the waiter's message gets poorer.
    with suppress(OSError):
        os.ftruncate(number, 0)
        os.pwrite(number, json.dumps(asdict(holder)).encode(), 0)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
