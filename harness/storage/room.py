"""Free space, looked at before work that would otherwise fail in a tool's own words."""

from __future__ import annotations

import shutil
from pathlib import Path

from harness.errors import BenchError

NEEDED_BYTES = 16 * 1024 * 1024
"""What a sketch's build needs at most, its caches included: a full library needs 200 MB and says
so itself."""


def require_room(folder: Path, *, needed_bytes: int = NEEDED_BYTES) -> None:
    """Raise :class:`BenchError` when the disk of ``folder``, which may not exist yet, is full."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        free_bytes = shutil.disk_usage(there).free
    except OSError:
        # Whatever is wrong there is said by whoever writes to it.
        return
    if free_bytes < needed_bytes:
        raise BenchError(
            f"the disk is full: {str(folder)!r} has {free_bytes} B left and a build needs about"
            f" {needed_bytes} B",
            remedy="free space there, or name another folder in HIL_CACHE",
        )
