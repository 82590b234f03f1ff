"""Where the bench keeps what belongs to boards rather than to runs.  Nothing here is created."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from harness.paths import cache_dir, config_file, run_dir
from harness.storage.digest import text_digest

LOCK_FOLDERS = (Path("/run/lock"), Path("/tmp"))
"""Folders that all users of a machine write, first choice first."""


def lock_dir() -> Path:
    """Where boards are locked between all users of this machine (``HIL_LOCK_DIR``).

    Every user has to get the same answer, so it hangs on nothing that is a user's own.
    """
    if named := os.environ.get("HIL_LOCK_DIR"):
        return Path(named).expanduser()
    return next((each for each in LOCK_FOLDERS if _open_to_all(each)), LOCK_FOLDERS[-1])


def virtual_lock_dir() -> Path:
    """Where virtual boards are locked: their serial numbers are one runtime folder's own."""
    return run_dir() / "owners"


def state_dir() -> Path:
    """What the bench remembers of each board between runs."""
    return cache_dir() / "bench"


def inventory_file() -> Path:
    """The user's own bench inventory, beside the configuration."""
    return config_file().parent / "bench.toml"


def file_stem(serial_number: str) -> str:
    """A name for a board's files: its serial number where that can be one, else a digest of it."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", serial_number):
        return serial_number
    return f"digest-{text_digest(serial_number)[:24]}"


def _open_to_all(folder: Path) -> bool:
    """Whether everybody may write there and nobody may remove what is another's."""
    with suppress(OSError):
        mode = folder.stat().st_mode
        return stat.S_ISDIR(mode) and bool(mode & stat.S_ISVTX) and bool(mode & stat.S_IWOTH)
    return False
