"""What is tried: the sizes that the board's data names, and what it says of each.

An arena is the static array that a sketch gives to the runtime, in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from harness.boards.board import ArenaBand, Standing
from harness.errors import UsageError

KIB = 1024
LARGEST_BYTES = 64 * 1024 * KIB
"""More than any microcontroller here has; it keeps a slip of the keyboard from a long wait."""

MOST_SIZES = 32

_SIZE = re.compile(r"(?P<number>[0-9]{1,9})(?P<unit>|[kK](?:i?B)?|B)")


class SizeLabel(Enum):
    """What the data, or the caller, says of a size."""

    FAILS = "known failing"
    WORKS = "known working"
    SHIPPED = "shipped"
    UNTESTED = "untested"
    OWN = "shipped by this library"
    ASKED = "asked for"


@dataclass(frozen=True)
class PlannedSize:
    """One size to try; ``works`` is what the data expects, None where it expects nothing."""

    size_bytes: int
    label: SizeLabel
    works: bool | None


@dataclass(frozen=True)
class Plan:
    """The sizes, smallest first, and where the expectations are from.

    ``standing`` and ``source`` are None where the data has no band for this sketch.
    ``shipped_bytes`` is what the sketch under test itself has; ``data_shipped_bytes`` what the
    data says was shipped.
    """

    sizes: tuple[PlannedSize, ...]
    shipped_bytes: int
    data_shipped_bytes: int | None
    standing: Standing | None
    source: str | None

    @property
    def shipped_differs(self) -> bool:
        """Whether the sketch under test ships another size than the data knows of."""
        return self.data_shipped_bytes not in (None, self.shipped_bytes)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes in bytes from ``28K,40K,29494``, sorted and each once.

    Raises :class:`UsageError` naming the first word that is no size.
    """
    sizes = set()
    for word in (each.strip() for each in text.split(",")):
        match = _SIZE.fullmatch(word)
        if match is None:
            raise UsageError(
                f"{word[:40]!r} is not an arena size",
                remedy="write sizes as bytes or KiB, separated by commas: 28K,40K,29494",
            )
        size = int(match["number"]) * (KIB if match["unit"][:1] in ("k", "K") else 1)
        if not 0 < size <= LARGEST_BYTES:
            raise UsageError(
                f"an arena of {word!r} cannot be",
                remedy=f"give sizes from 1 B to {LARGEST_BYTES} B",
            )
        sizes.add(size)
    if len(sizes) > MOST_SIZES:
        raise UsageError(
            f"{len(sizes)} arena sizes were given, more than {MOST_SIZES}",
            remedy="give fewer: the smallest size that works is found in any case",
        )
    return tuple(sorted(sizes))


def make_plan(band: ArenaBand | None, *, shipped_bytes: int, asked: Sequence[int] = ()) -> Plan:
    """The sizes of the data and the sketch's own, or only those ``asked`` for.

    Raises :class:`UsageError` where the data says of one size that it works and that it fails.
    """
    known = _known(band)
    known.setdefault(shipped_bytes, PlannedSize(shipped_bytes, SizeLabel.OWN, None))
    sizes = sorted(set(asked)) if asked else sorted(known)
    return Plan(
        sizes=tuple(known.get(size, PlannedSize(size, SizeLabel.ASKED, None)) for size in sizes),
        shipped_bytes=shipped_bytes,
        data_shipped_bytes=band.shipped_bytes if band else None,
        standing=band.standing if band else None,
        source=band.source if band else None,
    )


def _known(band: ArenaBand | None) -> dict[int, PlannedSize]:
    if band is None:
        return {}
    works = {*band.works_bytes, band.shipped_bytes}
    if both := sorted(works & set(band.fails_bytes)):
        raise UsageError(
            f"the data of sketch {band.sketch!r} says of an arena of {both[0]} B that it works and"
            " that it fails",
            remedy="correct that [[core_version.arena]] in the board file",
        )
    known = {size: PlannedSize(size, SizeLabel.UNTESTED, None) for size in band.untested_bytes}
    known |= {size: PlannedSize(size, SizeLabel.FAILS, False) for size in band.fails_bytes}
    known |= {size: PlannedSize(size, SizeLabel.WORKS, True) for size in band.works_bytes}
    known[band.shipped_bytes] = PlannedSize(band.shipped_bytes, SizeLabel.SHIPPED, True)
    return known
