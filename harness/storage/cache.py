"""Folders that can be made again, each made once, by one process, and seen whole or not at all.

An entry is built in a temporary folder beside its place and renamed into it.  A list of what was
built goes with it, so that an entry that lost or changed a file since is made again instead of
used.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.clock import wall_s
from harness.errors import BenchError
from harness.paths import cache_dir
from harness.storage.atomic_file import write_atomically
from harness.storage.digest import text_digest, tree_files
from harness.storage.lock import hold, hold_if_free

__all__ = ["SEAL", "TEMPORARY", "entry", "found", "lock_of", "write_atomically"]

SEAL = ".entry.json"
"""In every finished entry; its time is when the entry was last used, to within a day."""

TEMPORARY = ".tmp-"

_TEMPORARY = re.compile(r"\.tmp-(?P<key>.+)-\d+")
_MARKED_EVERY_S = 86_400.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


def entry(
    kind: str,
    key: str,
    build: Callable[[Path], None],
    *,
    progress: Callable[[str], None] | None = None,
    wait_s: float = 900.0,
) -> Path:
    """The folder ``cache_dir()/kind/key``, made by ``build(empty folder)`` unless it is there.

    ``key`` must be the hash of everything that goes into the build.  Another process that builds
    the same entry is waited for, up to ``wait_s`` seconds (``LockTimeout``).  Whatever ``build``
    raises passes through and leaves nothing behind; a full disk becomes :class:`BenchError`.
    """
    if not re.fullmatch(r"[\w][\w.-]*", key):
        raise ValueError(f"a cache key is one plain file name, not {key!r}")
    folder = cache_dir() / kind
    place = folder / key
    # First: from here on it is in use, and pruning leaves it alone.
    _mark_used(place)
    if _sound(place):
        return place
    with hold(
        lock_of(place), purpose=f"making the {kind} entry", timeout_s=wait_s, progress=progress
    ):
        if _sound(place):
            return place
        try:
            _make(folder, place, build)
        except OSError as error:
            raise _explained(error, kind, folder) from error
    return place


def found(kind: str, key: str) -> Path | None:
    """The folder of an entry that is there and whole, or None."""
    place = cache_dir() / kind / key
    _mark_used(place)
    return place if _sound(place) else None


def _make(folder: Path, place: Path, build: Callable[[Path], None]) -> None:
    _sweep(folder, own=place.name)
    temporary = folder / f"{TEMPORARY}{place.name}-{os.getpid()}"
    temporary.mkdir()
    try:
        build(temporary)
        # Last, and never without the rename: a folder that has both was finished.
        (temporary / SEAL).write_text(_seal(temporary), encoding="utf-8")
        if place.exists():
            spoilt = folder / f"{TEMPORARY}{place.name}-0"
            place.rename(spoilt)
            shutil.rmtree(spoilt, ignore_errors=True)
        temporary.rename(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sound(place: Path) -> bool:
    try:
        return (place / SEAL).read_text(encoding="utf-8") == _seal(place)
    except (OSError, BenchError, UnicodeDecodeError):
        return False


def _seal(place: Path) -> str:
    """Names, sizes and times of an entry's files.

    Times in whole seconds, since the archives that carry caches between machines keep no more.
    """
    files = tree_files(place, skip=frozenset({SEAL}))
    listing = "\n".join(
        f"{each.name}\0{each.stat.st_size}\0{each.stat.st_mtime_ns // 10**9}" for each in files
    )
    return json.dumps({"files": len(files), "listing": text_digest(listing)})


def _sweep(folder: Path, *, own: str) -> None:
    """Remove what ended processes left half made; the caller holds the lock of ``own``."""
    for left in list(folder.iterdir()):
        match = _TEMPORARY.fullmatch(left.name)
        if match is None:
            continue
        if match["key"] == own:
            shutil.rmtree(left, ignore_errors=True)
            continue
        # Its builder holds the lock as long as it lives, whatever machine's process it is.
        with (
            suppress(BenchError),
            hold_if_free(lock_of(folder / match["key"]), purpose="sweeping") as free,
        ):
            if free:
                shutil.rmtree(left, ignore_errors=True)


def lock_of(place: Path) -> Path:
    """The lock that is held while the entry at ``place`` is made or removed."""
    return place.parent / f".{place.name}.lock"


def _mark_used(place: Path) -> None:
    seal = place / SEAL
    with suppress(OSError):
        if wall_s() - seal.stat().st_mtime > _MARKED_EVERY_S:
            os.utime(seal)


def _explained(error: OSError, kind: str, folder: Path) -> BenchError:
    if error.errno in _FULL:
        return BenchError(
            f"the disk that holds {str(folder)!r} is full, so the {kind} entry was not made",
            remedy="free some room, or set HIL_CACHE to a folder on another disk",
        )
    return BenchError(
        f"cannot make the {kind} entry in {str(folder)!r}: {error}",
        remedy="check that this folder may be written, or set HIL_CACHE to another one",
    )
