"""One owner of a board at a time, whichever user of the machine runs the bench.

The lock goes by serial number, so it holds wherever the board is plugged in.  The kernel owns it:
it is free the moment its holder ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.bench.places import file_stem, lock_dir, virtual_lock_dir
from harness.clock import monotonic_s
from harness.errors import BenchError, DeviceError, UsageError
from harness.storage.lock import Holder, LockTimeout, hold, is_held, read_holder

WAIT_S = 600.0
"""Seconds a run waits for a board that another one has, unless the inventory says otherwise: some
runs of the whole suite."""


@dataclass(frozen=True)
class Claim:
    """A board that is this process's alone.

    ``waited`` says whether another one had it first, ``waited_s`` how long it took.  ``left_by``
    is a holder before that ended without giving the board back: what it had started, an upload
    say, may have been cut off, so nothing is known of what the board runs.
    """

    serial_number: str
    waited: bool
    waited_s: float
    left_by: Holder | None

    @property
    def remark(self) -> str | None:
        """One sentence for the run's report, where the board was taken over."""
        if self.left_by is None:
            return None
        holder = self.left_by
        return (
            f"took over board {self.serial_number!r} from process {holder.pid} ({holder.command}),"
            f" which had it since {holder.since} and ended without giving it back"
        )


class BoardTaken(DeviceError):
    """Another process had the board for longer than this one would wait.

    Cause: a long run, a hung one, or one that waits for a person.  Remedy: wait for it, or end it.
    It says nothing about the board.
    """

    def __init__(self, serial_number: str, timeout_s: float, holder: Holder | None) -> None:
        who = str(holder) if holder is not None else "a process that left no record"
        super().__init__(
            f"board {serial_number!r} was not free within {timeout_s:g} s: held by {who}",
            remedy=f"wait for process {holder.pid}, or end it, and run again"
            if holder is not None
            else f"find its holder with 'fuser -v {lock_path(serial_number)}'",
        )
        self.holder = holder


def lock_path(serial_number: str, *, virtual: bool = False) -> Path:
    """The lock of a board; ``virtual`` ones are one runtime folder's, others the machine's."""
    if virtual:
        return virtual_lock_dir() / f"{file_stem(serial_number)}.lock"
    return lock_dir() / f"executorch-hil-{file_stem(serial_number)}.lock"


@contextmanager
def claim_board(
    serial_number: str,
    *,
    purpose: str,
    progress: Callable[[str], None] = lambda _: None,
    timeout_s: float = WAIT_S,
    virtual: bool = False,
) -> Iterator[Claim]:
    """Own the board for the length of the block.

    ``progress`` is told once for every holder that is waited for, how long that took, and of a
    board that is taken over from a dead one.  Raises :class:`BoardTaken` after ``timeout_s``
    seconds, :class:`UsageError` for a board without serial number and :class:`BenchError` when
    there is nowhere to lock.
    """
    if not serial_number:
        raise UsageError(
            "a board without serial number cannot be owned",
            remedy="use a board that has one: uploads and locks go by it",
        )
    path = lock_path(serial_number, virtual=virtual)
    if not virtual:
        _make_shared(path.parent)
    started_s = monotonic_s()
    waited = is_held(path)

    def tell(line: str) -> None:
        nonlocal waited
        waited = True
        progress(f"board {serial_number}: {line}")

    with ExitStack() as held:
        try:
            left_by = held.enter_context(
                hold(
                    path,
                    purpose=purpose,
                    timeout_s=timeout_s,
                    progress=tell,
                    shared=not virtual,
                )
            )
        except LockTimeout as late:
            raise BoardTaken(serial_number, timeout_s, late.holder) from late
        claim = Claim(serial_number, waited, monotonic_s() - started_s, left_by)
        if waited:
            progress(f"board {serial_number}: free after {claim.waited_s:.0f} s")
        if claim.remark is not None:
            progress(claim.remark)
        yield claim


def owner_of(serial_number: str, *, virtual: bool = False) -> str | None:
    """Who has the board at this moment, for people; None where nobody has."""
    path = lock_path(serial_number, virtual=virtual)
    if not is_held(path):
        return None
    holder = read_holder(path)
    return str(holder) if holder is not None else "a process that left no record"


def _make_shared(folder: Path) -> None:
    """A folder that HIL_LOCK_DIR names is made for everybody, where it is not there."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(
            f"cannot make the folder of the boards' locks {str(folder)!r}: {error.strerror}",
            remedy="name another one in HIL_LOCK_DIR, the same for every user of the machine",
        ) from error
    with suppress(OSError):
        folder.chmod(0o1777)
