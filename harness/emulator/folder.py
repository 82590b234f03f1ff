"""The folder of a plugged-in virtual board, and who is still alive behind it.

``<run dir>/boards/<serial number>/`` is claimed with one ``rename`` of a folder that already says
who owns it, so there is no moment at which a live owner looks like a dead one.  ``board.json``
appears last, when pty and control socket answer.  The upload tool and the discovery of the Arduino
platform read the same files without this package.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness import paths, process
from harness.errors import BenchError, UsageError

SERIAL_NUMBER = re.compile(r"[A-Za-z0-9]{1,32}")
SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux: sun_path less its terminator."""

LONGEST_NAME = "control.sock"
OWNER_FILE = "owner.json"
BOARD_FILE = "board.json"


@dataclass(frozen=True)
class OwnerId:
    """A process that cannot be confused with a later one of the same id."""

    pid: int
    started: str
    """Start time in clock ticks since boot, or "" where the system does not tell."""

    @classmethod
    def of(cls, pid: int) -> OwnerId:
        """The process that has this id now."""
        return cls(pid, _start_ticks(pid))

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        return process.alive(self.pid) and _start_ticks(self.pid) == self.started


def _start_ticks(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


@dataclass(frozen=True)
class PluggedRecord:
    """What ``board.json`` says of a board that is ready."""

    board: str
    fqbn: str
    address: str
    vid: str
    pid: str
    serial_number: str
    label: str
    pid_of_owner: int
    owner_started: str
    control: str
    started: str
    stand_in: bool = False
    """Whether an emulated chip stands in for real hardware of this kind."""
    core_version: str | None = None
    """Version of the Arduino core that the stand-in is to be used with."""
    port_present: bool = True
    """False once the port is gone for good; the board's owner can still be asked."""

    @property
    def owner(self) -> OwnerId:
        """The process behind the board."""
        return OwnerId(self.pid_of_owner, self.owner_started)


def boards_folder() -> Path:
    """Where virtual boards are plugged in; may not exist."""
    return paths.run_dir().absolute() / "boards"


def check_run_dir() -> Path:
    """Make the runtime folder, for this user alone, and return the boards' folder in it.

    Raises :class:`BenchError` when somebody else owns it or it cannot be made.
    """
    root = paths.run_dir().absolute()
    try:
        with suppress(FileExistsError):
            root.mkdir(mode=0o700, parents=True)
        facts = root.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
            raise BenchError(
                f"the runtime folder {str(root)!r} is not a folder of this user",
                remedy="remove it, or name another one in HIL_RUN_DIR",
            )
        if stat.S_IMODE(facts.st_mode) & 0o077:
            root.chmod(0o700)
        boards = root / "boards"
        boards.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise BenchError(
            f"cannot make the runtime folder {str(root)!r}: {error.strerror}",
            remedy="check permission and free space there, or name another one in HIL_RUN_DIR",
        ) from error
    return boards


def claim(board: str, serial_number: str | None, owner: OwnerId) -> Path:
    """Take a serial number for ``owner`` and return the board's folder.

    The first free number of the kind, or the one asked for.  Raises :class:`UsageError` when that
    is taken or malformed, :class:`BenchError` when the folder cannot be had.
    """
    if serial_number is not None and not SERIAL_NUMBER.fullmatch(serial_number):
        raise UsageError(
            f"serial number {serial_number!r} is not 1 to 32 letters and digits",
            remedy="leave it out, or choose another",
        )
    boards = check_run_dir()
    stem = "HIL" + re.sub(r"[^A-Z0-9]", "", board.upper())
    names = [serial_number] if serial_number else [f"{stem}{n:04}" for n in range(1, 10000)]
    if len(os.fsencode(boards / names[-1] / LONGEST_NAME)) > SOCKET_PATH_BYTES:
        raise BenchError(
            f"the runtime folder's path {str(boards.parent)!r} is too long for a Unix socket",
            remedy="name a shorter one in HIL_RUN_DIR",
        )
    try:
        with _locked(boards):
            _sweep(boards)
            return _take(boards, names, owner)
    except OSError as error:
        raise BenchError(
            f"cannot make the folder of a board in {str(boards)!r}: {error.strerror}",
            remedy="check permission and free space there, or name another one in HIL_RUN_DIR",
        ) from error


def _take(boards: Path, names: list[str], owner: OwnerId) -> Path:
    fresh = boards / f".new-{owner.pid}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    (fresh / OWNER_FILE).write_text(json.dumps(asdict(owner)), encoding="utf-8")
    for name in names:
        folder = boards / name
        # rename(2) replaces an empty folder; ours are never empty, so a taken one refuses.
        if not folder.exists():
            fresh.rename(folder)
            return folder
    shutil.rmtree(fresh, ignore_errors=True)
    raise UsageError(
        f"serial number {names[0]!r} is already plugged in",
        remedy=f"run 'hil emulate --unplug {names[0]}', or leave the number out",
    )


def announce(record: PluggedRecord, folder: Path) -> None:
    """Write ``board.json`` in one step: whoever sees it sees all of it."""
    unfinished = folder / f".{BOARD_FILE}"
    unfinished.write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")
    unfinished.replace(folder / BOARD_FILE)


class Publisher:
    """Tells anew what a ready board is, when its port or number changes."""

    def __init__(self, record: PluggedRecord, folder: Path) -> None:
        self._record = record
        self._folder = folder

    def __call__(self, **changes: str | bool) -> None:
        """Write ``board.json`` with these fields changed.  Raises :class:`OSError`."""
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]  # By name.
        announce(self._record, self._folder)


def remove(folder: Path) -> None:
    """Take the board's folder away in one step, then delete it; none there is not an error."""
    gone = folder.with_name(f".gone-{folder.name}-{os.getpid()}")
    with suppress(OSError):
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def read_record(folder: Path) -> PluggedRecord | None:
    """The board in ``folder`` if it is ready and its owner lives, else None."""
    try:
        raw = json.loads((folder / BOARD_FILE).read_bytes())
        record = PluggedRecord(**raw)
    except (OSError, ValueError, TypeError):
        return None
    return record if record.owner.alive else None


def records(*, sweep: bool = True) -> tuple[PluggedRecord, ...]:
    """Every board that is ready, by serial number; what dead owners left is removed first."""
    boards = boards_folder()
    if not boards.is_dir() or boards.lstat().st_uid != os.getuid():
        return ()
    if sweep:
        with suppress(OSError), _locked(boards):
            _sweep(boards)
    found = (read_record(folder) for folder in sorted(boards.iterdir()))
    return tuple(record for record in found if record is not None)


def _sweep(boards: Path) -> None:
    """Delete the folders of dead owners.  Only under the lock: a claim may be under way."""
    for folder in boards.iterdir():
        if folder.is_dir() and not _owner_lives(folder):
            remove(folder)


def _owner_lives(folder: Path) -> bool:
    try:
        raw = json.loads((folder / OWNER_FILE).read_bytes())
        return OwnerId(int(raw["pid"]), str(raw["started"])).alive
    except (OSError, ValueError, TypeError, KeyError):
        return False


@contextmanager
def _locked(boards: Path) -> Iterator[None]:
    with (boards / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
