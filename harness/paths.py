"""Where the bench keeps things: its own data, the user's configuration, cache and runtime folder.

Every folder can be moved with an environment variable, which is how tests and parallel sessions
are kept apart.  No function here creates anything; the writer of a folder creates it.
"""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_dir() -> Path:
    """Folder that holds ``boards/`` and ``sketches/``: inside a wheel, or the project's root."""
    packed = _PACKAGE / "data"
    return packed if packed.is_dir() else _PACKAGE.parent


def boards_dir() -> Path:
    """Folder of the board files, one TOML each."""
    return data_dir() / "boards"


def sketches_dir() -> Path:
    """Folder of the bench's own sketches."""
    return data_dir() / "sketches"


def platform_dir() -> Path:
    """Folder laid out as Arduino expects hardware: ``<vendor>/<architecture>/``."""
    return boards_dir() / "platform"


def cache_dir() -> Path:
    """Everything that can be made again (``HIL_CACHE``, else XDG cache)."""
    return _from_environment("HIL_CACHE", "XDG_CACHE_HOME", ".cache")


def config_file() -> Path:
    """The user's configuration (``HIL_CONFIG`` names the file itself)."""
    if named := os.environ.get("HIL_CONFIG"):
        return Path(named).expanduser()
    return _from_environment("HIL_CONFIG_DIR", "XDG_CONFIG_HOME", ".config") / "config.toml"


def run_dir() -> Path:
    """Sockets, ptys and locks of the boards now plugged in (``HIL_RUN_DIR``).

    Short on purpose: a Unix socket's path holds 107 bytes on Linux.
    """
    if named := os.environ.get("HIL_RUN_DIR"):
        return Path(named).expanduser()
    return Path("/tmp") / f"hil-{os.getuid()}"


def _from_environment(own: str, xdg: str, fallback: str) -> Path:
    if named := os.environ.get(own):
        return Path(named).expanduser()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / fallback) / "executorch-hil"


def suite_dir() -> Path:
    """Folder of the suite that ``hil test`` runs."""
    packed = _PACKAGE / "data" / "suite"
    return packed if packed.is_dir() else _PACKAGE.parent / "tests" / "hil"
