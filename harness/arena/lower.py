"""The band's lower side: which sizes load, what each lacks, and the smallest that works.

Pure: it asks a :class:`Loader` and knows nothing of boards, so that its logic is tested without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

_SHORTFALL = re.compile(
    r"\b(?P<requested>\d{1,12})B requested \(adjusted for alignment\), (?P<available>\d{1,12})B"
)


class Outcome(Enum):
    """What became of one size."""

    WORKS = "works"
    FAILS = "fails"
    CRASHES = "crashes"
    WRONG = "answers differently"
    NOT_LOADED = "not loaded"


@dataclass(frozen=True)
class Shortfall:
    """The first request that the allocator refused: bytes wanted and bytes left."""

    requested_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class Attempt:
    """One size that was tried.

    ``used_bytes`` is the allocator's high-water mark, None where the board did not say.  ``said``
    is the runtime's own sentence, or the runner's.  ``shortfall`` is of the first request that
    failed: what the whole model lacks is the smallest working size less this one.
    """

    size_bytes: int
    outcome: Outcome
    used_bytes: int | None = None
    said: str = ""
    shortfall: Shortfall | None = None

    @property
    def works(self) -> bool:
        """Whether the model loaded, ran and answered as it does in the largest arena."""
        return self.outcome is Outcome.WORKS


class Loader(Protocol):
    """Something that holds the model and loads it in an arena of a given size."""

    @property
    def limit_bytes(self) -> int:
        """The largest arena that it can be asked for."""

    def attempt(self, size_bytes: int) -> Attempt:
        """Load and run in an arena of ``size_bytes``."""


@dataclass(frozen=True)
class LowerSide:
    """Every size that was tried, smallest first, those of the search included.

    ``smallest_bytes`` works and one byte less does not; None where nothing within the loader's
    limit works.  ``loads`` counts how often the model was loaded.
    """

    attempts: tuple[Attempt, ...]
    smallest_bytes: int | None
    limit_bytes: int
    loads: int

    def at(self, size_bytes: int) -> Attempt:
        """The attempt at this size; one beyond the limit was not loaded."""
        for each in self.attempts:
            if each.size_bytes == size_bytes:
                return each
        return Attempt(size_bytes, Outcome.NOT_LOADED)


def shortfall_of(text: str) -> Shortfall | None:
    """The numbers of the allocator's line, or None where ``text`` is no such line."""
    match = _SHORTFALL.search(text)
    return (
        Shortfall(int(match["requested"]), int(match["available"])) if match is not None else None
    )


def measure_lower(loader: Loader, sizes: Sequence[int]) -> LowerSide:
    """Try every size within the loader's limit, then find the smallest that works.

    The allocator's high-water mark after a load is the smallest size by its own account: two more
    loads prove it.  Where they do not, the size is found by halving.
    """
    done: dict[int, Attempt] = {}

    def tried(size: int) -> Attempt:
        if size not in done:
            done[size] = loader.attempt(size)
        return done[size]

    limit = loader.limit_bytes
    for size in sorted({each for each in sizes if each <= limit} | {limit}):
        tried(size)
    smallest = None
    working = [each for each in done.values() if each.works]
    if working:
        mark = working[0].used_bytes
        if mark is not None and 1 < mark <= limit and tried(mark).works:
            tried(mark - 1)
        smallest = min(each.size_bytes for each in done.values() if each.works)
        failing = (each.size_bytes for each in done.values() if each.size_bytes < smallest)
        low = max(failing, default=0)
        while smallest - low > 1:
            middle = (smallest + low) // 2
            if tried(middle).works:
                smallest = middle
            else:
                low = middle
    attempts = tuple(done[size] for size in sorted(done))
    return LowerSide(attempts, smallest, limit, len(done))
