"""What the user set once: their ExecuTorch checkout, real tools to use, how long caches are kept.

The nearest wins: a flag, then ``HIL_EXECUTORCH``, then ``executorch = "DIR"`` in the user's
configuration file (see :func:`harness.paths.config_file`).
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from harness.boards.schema import Table
from harness.errors import UsageError
from harness.paths import config_file

FLAG = "--executorch"
VARIABLE = "HIL_EXECUTORCH"
PATHS = ("executorch", "adb", "remoteocd", "arduino_router", "router_bridge")
KEEP_UNUSED_DAYS = 14
"""Unless the configuration says otherwise: a night of a lab leaves about half a gigabyte."""


@dataclass(frozen=True)
class Config:
    """The settings in force.

    ``executorch`` is the checkout's absolute path, not yet looked at; ``executorch_source`` says
    what named it, for messages.  Both are None where nothing did.  The rest are real parts of the
    Uno Q's route, absolute paths and not yet looked at: programs, and for ``router_bridge`` a
    library's folder.  Where they are named they run in the place of the stand-in's own.
    ``keep_unused_days`` is how long what nobody uses stays in the cache; 0 is for ever.
    """

    executorch: Path | None = None
    executorch_source: str | None = None
    adb: Path | None = None
    remoteocd: Path | None = None
    arduino_router: Path | None = None
    router_bridge: Path | None = None
    keep_unused_days: int = KEEP_UNUSED_DAYS


def load_config(*, executorch: Path | None = None) -> Config:
    """The settings, ``executorch`` being what the flag said.

    A configuration file that is absent sets nothing.  Raises :class:`UsageError` with file, line
    and key when it is wrong, even where a flag overrides it.
    """
    path = config_file()
    from_file, keep_unused_days = _read(path)
    in_file = from_file.get("executorch")
    source: str | None = None
    checkout: Path | None = None
    if executorch is not None:
        checkout, source = _absolute(executorch, Path.cwd()), FLAG
    elif named := os.environ.get(VARIABLE):
        checkout, source = _absolute(Path(named), Path.cwd()), VARIABLE
    elif in_file is not None:
        checkout, source = in_file, str(path)
    return Config(
        executorch=checkout,
        executorch_source=source,
        adb=from_file.get("adb"),
        remoteocd=from_file.get("remoteocd"),
        arduino_router=from_file.get("arduino_router"),
        router_bridge=from_file.get("router_bridge"),
        keep_unused_days=keep_unused_days,
    )


def how_to_configure() -> str:
    """One line that says how to name a checkout."""
    return (
        f"name an ExecuTorch checkout with {FLAG} DIR, {VARIABLE}=DIR,"
        f' or executorch = "DIR" in {config_file()}'
    )


def _read(path: Path) -> tuple[dict[str, Path], int]:
    """Every path that the file names, absolute, by its key; and how many days it keeps caches."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}, KEEP_UNUSED_DAYS
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the configuration {str(path)!r}: {error}",
            remedy="check that it is a readable UTF-8 file, or remove it",
        ) from error
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path}: this is not TOML: {error}", remedy="correct the syntax at that place"
        ) from error
    table = Table(raw, path=path, text=text)
    named = {key: table.optional_text(key) for key in PATHS}
    days = table.optional_whole("keep_unused_days", most=100_000)
    table.close()
    paths = {
        key: _absolute(Path(value), path.parent)
        for key, value in named.items()
        if value is not None
    }
    return paths, KEEP_UNUSED_DAYS if days is None else days


def _absolute(path: Path, base: Path) -> Path:
    # Not resolved: a link's own name is what the user knows the checkout by.
    return Path(os.path.abspath(base / path.expanduser()))  # noqa: PTH100
