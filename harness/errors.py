"""One error base with two branches: the caller's mistake, and the world's.

Messages are one lowercase sentence that names the object, its state and the operation; values are
written with ``!r``.  The remedy is a second sentence, kept apart so that every front (terminal,
JSON, JUnit, Allure) can lay it out in its own way.  Evidence is a tuple of lines copied from what
was observed, never interpreted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class HilError(Exception):
    """Base of every error that the bench raises on purpose.

    Cause: :attr:`cause` where it is known apart from the message.  Remedy: :attr:`remedy`, which
    is never empty.  :attr:`stage` is the pipeline's stage: that of a class whose errors come from
    one stage only, or set by :func:`in_stage`.
    """

    stage: str | None = None

    def __init__(
        self, message: str, *, remedy: str, evidence: tuple[str, ...] = (), cause: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.evidence = evidence
        self.cause = cause

    def __str__(self) -> str:
        return self.message


class UsageError(HilError):
    """The caller asked for something that cannot be: a flag, a board file, a model file.

    Cause: the input.  Remedy: correct the input; nothing was run.
    """


class CapabilityMissing(HilError):
    """Something optional is not installed here, so a lane or a case cannot run.

    Cause: the machine.  Remedy: one line that says what to install.  Becomes a *skipped* verdict.
    """


class WorldError(HilError):
    """A tool, the bench, or the path to a device misbehaved: a *fault*, never the DUT's failure.

    Cause: outside the device under test.  Remedy: in the message; may be retried.
    """


class ToolError(WorldError):
    """An external program is missing, failed, hung or printed what its contract excludes."""


class BenchError(WorldError):
    """The bench's own resources gave out: disk, lock, cache, temporary folder, permission."""


class DeviceError(WorldError):
    """The way to the board broke: port busy or gone, nothing plugged in, stream corrupted."""


class DutFailure(HilError):
    """The device under test is wrong: a *failed* verdict.

    Cause: sketch, model or library.  Remedy: says what to change in them.
    """


@contextmanager
def in_stage(name: str) -> Iterator[None]:
    """Mark every bench error that leaves the block with the stage; the innermost mark stays."""
    try:
        yield
    except HilError as error:
        if error.stage is None:
            error.stage = name
        raise
