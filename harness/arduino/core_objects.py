"""The core's objects, compiled once for each platform and board, and put into new build paths.

arduino-cli shares a compiled core between sketches only where it chooses the build path itself: in
a build path that it is given, the core's files are compiled for every new sketch, which takes
longer than the sketch.  Put there beforehand, they are what an earlier compile would have left.
arduino-cli looks at them as ever, and compiles what does not fit.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from harness.errors import BenchError
from harness.storage import cache

_KIND = "core"
_FOLDER = "core"
_BUILD_PATH = "{build.path}"
"""In the cache, in the place of the build path in the lists of what an object depends on."""


def put(build_path: Path, key: str) -> None:
    """Put the core's objects of ``key``, where there are some, into a build path without any."""
    target = build_path / _FOLDER
    if target.exists():
        return
    kept = cache.found(_KIND, key)
    if kept is None:
        return
    try:
        shutil.copytree(kept, target, copy_function=_copy, ignore=_seal)
        for listing in target.rglob("*.d"):
            _replace(listing, _BUILD_PATH, str(build_path))
        # One time for all: an archive older than one of its objects would be made anew.
        now_ns = target.stat().st_mtime_ns
        for path in target.rglob("*"):
            os.utime(path, ns=(now_ns, now_ns))
    except OSError:
        # Half of them is worse than none; the compile will say what is wrong with the disk.
        shutil.rmtree(target, ignore_errors=True)


def keep(build_path: Path, key: str) -> None:
    """Keep the core's objects of a compile that succeeded, for the next build path."""
    origin = build_path / _FOLDER

    def copy(folder: Path) -> None:
        shutil.copytree(origin, folder, dirs_exist_ok=True)
        for listing in folder.rglob("*.d"):
            _replace(listing, str(build_path), _BUILD_PATH)

    # A compile that succeeded does not fail for want of room for this.
    with suppress(OSError, BenchError):
        if (origin / "core.a").is_file():
            cache.entry(_KIND, key, copy)


_copy = shutil.copyfile


def _seal(folder: str, names: list[str]) -> set[str]:
    del folder
    return {cache.SEAL} & set(names)


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    path.write_text(text.replace(old, new), encoding="utf-8", errors="surrogateescape")
