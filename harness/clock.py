"""The only module that reads a clock or sleeps.

Everything that waits holds a :class:`Deadline` on the monotonic clock, so that a changed system
time never shortens or lengthens a wait.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime


def monotonic_s() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


def wall_iso() -> str:
    """The wall clock, UTC, ISO 8601 with milliseconds: for reports, never for waiting."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def pause(seconds: float) -> None:
    """Sleep between two looks at something that cannot be waited on; never to synchronise."""
    time.sleep(seconds)


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock after which a wait gives up."""

    at_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Deadline:
        """A deadline ``timeout_s`` seconds from now; ``math.inf`` never expires."""
        return cls(monotonic_s() + timeout_s)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at_s - monotonic_s())

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        return not math.isinf(self.at_s) and monotonic_s() >= self.at_s
