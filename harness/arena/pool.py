"""The pool in a sketch's text: its name and size, and the same sketch with another size."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.arduino.sketch import Sketch
from harness.errors import UsageError

_POOL = re.compile(
    r"\buint8_t\s+(?P<name>\w+)\s*\[\s*(?P<first>\d{1,9})\s*(?:\*\s*(?P<second>\d{1,9})\s*)?\]\s*;"
)


@dataclass(frozen=True)
class Pool:
    """The static array of a sketch that it gives to the runtime; ``text`` is how it stands there.

    ``declared`` is the part of ``text`` that another size replaces.
    """

    name: str
    size_bytes: int
    declared: str


def find_pool(sketch: Sketch) -> Pool:
    """The one array of bytes of constant size in the sketch's ``.ino``.

    Raises :class:`UsageError` where there is none, or more than one that could be it.
    """
    text = sketch.files[f"{sketch.name}.ino"].decode("utf-8", "replace")
    found = [
        Pool(
            name=match["name"],
            size_bytes=int(match["first"]) * int(match["second"] or 1),
            declared=match.group(),
        )
        for match in _POOL.finditer(text)
    ]
    pools = [each for each in found if "pool" in each.name or "arena" in each.name]
    if len(pools) != 1:
        raise UsageError(
            f"sketch {sketch.name!r} has {len(pools)} arrays that could be its arena, not one",
            remedy="choose a sketch that gives one static uint8_t ..._pool[N * 1024] to ETModel",
        )
    return pools[0]


def with_pool(sketch: Sketch, pool: Pool, size_bytes: int) -> Sketch:
    """The same sketch with a pool of ``size_bytes``."""
    if size_bytes == pool.size_bytes:
        return sketch
    return sketch.replacing(pool.declared, f"uint8_t {pool.name}[{size_bytes}];")
