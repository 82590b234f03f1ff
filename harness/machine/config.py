"""What the user set once: where their ExecuTorch checkout is.

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


@dataclass(frozen=True)
class Config:
    """The settings in force.

    ``executorch`` is the checkout's absolute path, not yet looked at; ``executorch_source`` says
    what named it, for messages.  Both are None where nothing did.
    """

    executorch: Path | None = None
    executorch_source: str | None = None


def load_config(*, executorch: Path | None = None) -> Config:
    """The settings, ``executorch`` being what the flag said.

    A configuration file that is absent sets nothing.  Raises :class:`UsageError` with file, line
    and key when it is wrong, even where a flag overrides it.
    """
    path = config_file()
    from_file = _read(path)
    if executorch is not None:
        return Config(_absolute(executorch, Path.cwd()), FLAG)
    if named := os.environ.get(VARIABLE):
        return Config(_absolute(Path(named), Path.cwd()), VARIABLE)
    if from_file is not None:
        return Config(_absolute(from_file, path.parent), str(path))
    return Config()


def how_to_configure() -> str:
    """One line that says how to name a checkout."""
    return (
        f"name an ExecuTorch checkout with {FLAG} DIR, {VARIABLE}=DIR,"
        f' or executorch = "DIR" in {config_file()}'
    )


def _read(path: Path) -> Path | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
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
    # Asked for even when absent, so that a misspelt key is told from an unknown one.
    named = (
        table.text("executorch")
        if "executorch" in raw
        else table.texts("executorch", optional=True)
    )
    table.close()
    return Path(named) if isinstance(named, str) else None


def _absolute(path: Path, base: Path) -> Path:
    # Not resolved: a link's own name is what the user knows the checkout by.
    return Path(os.path.abspath(base / path.expanduser()))  # noqa: PTH100
