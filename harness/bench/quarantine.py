"""Boards that are out of use, by their owner's word or after faults in a row.

The inventory is written by people only; what the bench itself finds is kept in its state, one small
file a board.  A board in quarantine is never passed over: using it is a fault that says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.bench.inventory import Inventory
from harness.bench.owner import BoardTaken
from harness.bench.places import file_stem, state_dir
from harness.clock import wall_iso
from harness.errors import BenchError, DeviceError, HilError, ToolError
from harness.storage.atomic_file import write_atomically
from harness.storage.lock import hold

_LOCK_S = 30.0
_MOST_BYTES = 1 << 20
_MOST_TEXT = 500

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Fault:
    """One run that ended with a fault of the board: when (UTC, ISO 8601), and its first line."""

    when: str
    what: str

    def __str__(self) -> str:
        return f"{self.when}  {self.what}"


@dataclass(frozen=True)
class BoardState:
    """What the bench remembers of a board: its faults since the last run that said something of
    the device, oldest first, and since when it is quarantined for them, empty where it is not.
    """

    serial_number: str
    faults: tuple[Fault, ...] = ()
    quarantined_since: str = ""

    @property
    def reason(self) -> str | None:
        """Why the bench quarantined it, or None where it did not."""
        if not self.quarantined_since:
            return None
        last = f", the last: {self.faults[-1].what}" if self.faults else ""
        return f"{len(self.faults)} runs in a row ended with a fault of the board{last}"


class BoardQuarantined(DeviceError):
    """The board is out of use.

    Cause: its entry in the inventory says so, or its last runs all ended with a fault of it.
    Remedy: find out what is wrong with it, then release it.
    """


def require_not_quarantined(
    serial_number: str,
    inventory: Inventory,
    *,
    progress: Progress = lambda _: None,
    folder: Path | None = None,
) -> None:
    """Raise :class:`BoardQuarantined` for a board that is out of use, by file or by state."""
    entry = inventory.entry(serial_number)
    if entry is not None and entry.quarantined is not None:
        raise BoardQuarantined(
            f"board {serial_number!r} is quarantined in {inventory.path}:{entry.line}:"
            f" {entry.quarantined}",
            remedy="use another board, or when it is in order again, take 'quarantined' out of"
            " its entry there",
        )
    state = read_state(serial_number, progress=progress, folder=folder)
    if state.reason is not None:
        raise BoardQuarantined(
            f"board {serial_number!r} is quarantined since {state.quarantined_since}:"
            f" {state.reason}",
            remedy="find out what is wrong with it, then lift the quarantine with"
            f" 'hil bench release {serial_number}'",
            evidence=tuple(str(each) for each in state.faults),
        )


def counts_against_board(error: HilError) -> bool:
    """Whether a fault says something of the board itself: of the way to it, or of an upload.

    A full disk, a missing tool or a board that somebody else has would quarantine a whole lab.
    """
    if isinstance(error, BoardTaken | BoardQuarantined):
        return False
    return isinstance(error, DeviceError) or (
        isinstance(error, ToolError) and error.stage == "upload"
    )


def record_outcome(
    serial_number: str,
    *,
    fault: str | None,
    after_faults: int,
    progress: Progress = lambda _: None,
    folder: Path | None = None,
) -> BoardState:
    """Count a run that used the board: ``fault`` is the first line of its fault, if it had one.

    A run that passed or failed resets the count: the board works.  At ``after_faults`` faults in a
    row the board is quarantined, which ``progress`` is told and the state given says.  Raises
    :class:`BenchError` when it cannot be written.
    """
    path = _path(serial_number, folder)
    with hold(path.with_suffix(".lock"), purpose="counting faults", timeout_s=_LOCK_S):
        state = read_state(serial_number, progress=progress, folder=folder)
        if fault is None:
            # A quarantine is lifted by a person: a run may have been let through by mistake.
            counted = state if state.quarantined_since else replace(state, faults=())
        else:
            happened = Fault(wall_iso(), fault[:_MOST_TEXT])
            counted = replace(state, faults=(*state.faults, happened)[-max(after_faults, 20) :])
            if len(counted.faults) >= after_faults and not state.quarantined_since:
                counted = replace(counted, quarantined_since=happened.when)
                progress(
                    f"board {serial_number!r} is quarantined from now on: {counted.reason};"
                    f" 'hil bench release {serial_number}' lifts it"
                )
        if counted != state:
            _write(path, counted)
    return counted


def release(
    serial_number: str, *, progress: Progress = lambda _: None, folder: Path | None = None
) -> BoardState:
    """Forget the board's faults, and its quarantine with them; gives what was remembered."""
    path = _path(serial_number, folder)
    with hold(path.with_suffix(".lock"), purpose="releasing a board", timeout_s=_LOCK_S):
        state = read_state(serial_number, progress=progress, folder=folder)
        with suppress(FileNotFoundError):
            path.unlink()
    return state


def read_state(
    serial_number: str, *, progress: Progress = lambda _: None, folder: Path | None = None
) -> BoardState:
    """What is remembered of a board.

    A damaged file is kept beside its place under another name, ``progress`` is told, and nothing
    is remembered.  Raises :class:`BenchError` for a file that cannot be read at all.
    """
    path = _path(serial_number, folder)
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except FileNotFoundError:
        return BoardState(serial_number)
    except OSError as error:
        raise BenchError(
            f"cannot read what the bench remembers of board {serial_number!r} in {str(path)!r}:"
            f" {error.strerror}",
            remedy="check that the folder and its files may be read by this user",
        ) from error
    try:
        return _parsed(data, serial_number)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        aside = _keep_aside(path)
        progress(
            f"what the bench remembered of board {serial_number!r} is damaged"
            f" ({type(error).__name__}) and was kept as {str(aside)!r}: its faults are counted"
            " anew, and a quarantine of the bench's own is forgotten"
        )
        return BoardState(serial_number)


def remembered_boards(folder: Path | None = None) -> tuple[str, ...]:
    """Serial numbers of every board that something is remembered of; damaged files have none."""
    found = []
    for path in sorted((folder or state_dir()).glob("*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            found.append(str(json.loads(path.read_bytes())["serial_number"]))
    return tuple(found)


def _path(serial_number: str, folder: Path | None) -> Path:
    return (folder or state_dir()) / f"{file_stem(serial_number)}.json"


def _parsed(data: bytes, serial_number: str) -> BoardState:
    raw = json.loads(data)
    if raw["serial_number"] != serial_number:
        raise ValueError("another board's")
    faults = raw["faults"]
    since = raw["quarantined_since"]
    if not isinstance(faults, list) or not isinstance(since, str):
        raise TypeError("faults or quarantined_since")
    return BoardState(
        serial_number,
        tuple(Fault(str(each["when"]), str(each["what"])) for each in faults),
        since,
    )


def _keep_aside(path: Path) -> Path:
    """The damaged file's new name; the first that is free, so that no evidence is lost."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    with suppress(FileNotFoundError):
        # Another run may have put it aside just now.
        path.rename(aside)
    return aside


def _write(path: Path, state: BoardState) -> None:
    try:
        write_atomically(path, (json.dumps(asdict(state), indent=1) + "\n").encode())
    except OSError as error:
        raise BenchError(
            f"cannot write what the bench remembers of board {state.serial_number!r} to"
            f" {str(path)!r}: {error.strerror}",
            remedy="check permission and free space there, or set HIL_CACHE to another folder",
        ) from error
