"""What the cache holds, when it was last used, and taking away what has not been for long.

Only what can be made again and says when it was last used: finished entries, and arduino-cli's
build paths.  Whatever else lies in the cache's folder is not touched.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.clock import wall_s
from harness.errors import BenchError
from harness.paths import cache_dir
from harness.storage.cache import SEAL, TEMPORARY, lock_of
from harness.storage.lock import hold_if_free

BUILD = "build"
"""Kind of arduino-cli's build paths: ``build/<board>/<sketch>/``, locked by ``<sketch>.lock``."""

DAY_S = 86_400.0

_STAMP = ".pruned"
"""In the cache: its time is when it was last looked through without being asked to."""


@dataclass(frozen=True)
class Kept:
    """One thing in the cache that can be made again.

    ``nbytes`` is the room it takes on the disk; ``unused_s`` how long ago it was last used, to
    within a day; ``marker`` the file or folder whose time says so.
    """

    kind: str
    name: str
    path: Path
    lock: Path
    marker: Path
    nbytes: int
    unused_s: float


def kept(unused_for_days: float = 0.0) -> list[Kept]:
    """What pruning may take away, unused for as long at least, the longest unused first."""
    # Measured only if it was not used for so long: that looks at every file.
    found = [
        Kept(kind, name, path, lock, marker, _disk_bytes(path), unused_s)
        for kind, name, path, lock, marker in _places()
        if unused_for_days * DAY_S <= (unused_s := _unused_s(marker)) < math.inf
    ]
    return sorted(found, key=lambda each: (-each.unused_s, each.kind, each.name))


def prune(unused_for_days: float, *, progress: Callable[[str], None]) -> list[Kept]:
    """Take away what was not used for ``unused_for_days`` days; gives what went.

    What another process is making or compiling in stays, and so does what cannot be removed, which
    ``progress`` is told.
    """
    gone = []
    for each in kept(unused_for_days):
        try:
            if _remove(each, unused_for_days * DAY_S):
                gone.append(each)
        except (OSError, BenchError) as error:
            progress(f"{each.path} could not be removed from the cache: {error}")
    return gone


def prune_daily(unused_for_days: float, *, progress: Callable[[str], None]) -> list[Kept]:
    """As :func:`prune`, once a day on each cache; 0 days is never."""
    stamp = cache_dir() / _STAMP
    if not unused_for_days or _unused_s(stamp) < DAY_S:
        return []
    try:
        stamp.touch()
    except OSError:
        return []  # A cache that cannot be written grows no further.
    return prune(unused_for_days, progress=progress)


def what_went(found: Sequence[Kept]) -> str:
    """How many things, and how much room they took, in words."""
    things = "1 thing" if len(found) == 1 else f"{len(found)} things"
    return f"{things}, {room(sum(each.nbytes for each in found))},"


def room(nbytes: int) -> str:
    """A size for people."""
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def _places() -> Iterator[tuple[str, str, Path, Path, Path]]:
    for folder in _folders(cache_dir()):
        if folder.name == BUILD:
            for board in _folders(folder):
                for work in _folders(board):
                    name = f"{board.name}/{work.name}"
                    yield BUILD, name, work, work.with_suffix(".lock"), work / "out"
            continue
        for place in _folders(folder):
            if not place.name.startswith(TEMPORARY) and (place / SEAL).is_file():
                yield folder.name, place.name, place, lock_of(place), place / SEAL


def _folders(folder: Path) -> list[Path]:
    """Folders in ``folder``; a link to one is somebody else's."""
    try:
        with os.scandir(folder) as items:
            return sorted(Path(each.path) for each in items if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _unused_s(marker: Path) -> float:
    """Seconds since the time of ``marker``, never negative; endless where it is not there: what was
    never finished, or has gone since it was listed.
    """
    try:
        return max(0.0, wall_s() - marker.stat().st_mtime)
    except OSError:
        return math.inf


def _disk_bytes(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
    return total


def _remove(each: Kept, limit_s: float) -> bool:
    with hold_if_free(each.lock, purpose="pruning the cache") as free:
        # Looked at again: it may have been used since it was listed.
        if not free or _unused_s(each.marker) < limit_s:
            return False
        # Renamed first, so that it is seen whole or not at all; a rest is swept like any other.
        rest = each.path.with_name(f"{TEMPORARY}{each.path.name}-{os.getpid()}")
        each.path.rename(rest)
        shutil.rmtree(rest)
    return True
