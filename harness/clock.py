"""The only module that reads a clock or sleeps.

Everything that waits holds a :class:`Deadline` on the monotonic clock, so that a changed system
time never shortens or lengthens a wait.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime


def monotonic_s() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


def wall_iso() -> str:
    """The wall clock, UTC, ISO 8601 with milliseconds: for reports, never for waiting."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def wall_s() -> float:
    """The wall clock in seconds since 1970, to compare with the times of files."""
    return time.time()


def pause(seconds: float) -> None:
    """Sleep between two looks at something that cannot be waited on; never to synchronise."""
    time.sleep(seconds)


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock after which a wait gives up.

    ``now`` is that clock, unless a recording is played back: then time is the recording's own.
    """

    at_s: float
    now: Callable[[], float] = field(default=monotonic_s, compare=False)

    @classmethod
    def after(cls, timeout_s: float, now: Callable[[], float] = monotonic_s) -> Deadline:
        """A deadline ``timeout_s`` seconds from now; ``math.inf`` never expires."""
        return cls(now() + timeout_s, now)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at_s - self.now())

    @property
    def expired(self) -> bool:
        """Whether the moment has passed."""
        return not math.isinf(self.at_s) and self.now() >= self.at_s
