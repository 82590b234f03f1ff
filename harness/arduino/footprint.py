"""Flash and RAM of a firmware, as the build itself reports them, against its limits.

Flash is what the image occupies, RAM is what the linker places there: neither the heap nor the
stack is in it.  Figures from different size recipes (board core versions) are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.boards.board import Budget, CoreVersion
from harness.errors import DutFailure, ToolError


@dataclass(frozen=True)
class Footprint:
    """Bytes used and the ceiling that the build reports for each."""

    flash_bytes: int
    flash_max_bytes: int
    ram_bytes: int
    ram_max_bytes: int


def read_footprint(sections: object) -> Footprint:
    """From ``builder_result.executable_sections_size``.

    A size of zero has no key there.  Raises :class:`ToolError` when the list is missing, which
    arduino-cli does without failing when the platform's size recipe breaks.
    """
    found: dict[str, tuple[int, int]] = {}
    for each in sections if isinstance(sections, Sequence) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str):
            size, most = each.get("size", 0), each.get("max_size", 0)
            if isinstance(size, int) and isinstance(most, int):
                found[each["name"]] = (size, most)
    if "text" not in found or "data" not in found:
        raise ToolError(
            "arduino-cli compiled the sketch but reported no sizes",
            remedy="check the platform's size recipe: run its recipe.size.pattern on the ELF",
            evidence=(f"executable_sections_size: {sections!r}",),
        )
    return Footprint(*found["text"], *found["data"])


def check_ceilings(footprint: Footprint, core: CoreVersion, *, board: str) -> None:
    """Raise :class:`ToolError` when the build's ceilings are not the board file's.

    For the bench's own platform, which is generated from it.  A core of someone else's may change
    them: see :func:`harness.arduino.build_report.ceiling_alerts`.
    """
    for what, reported, known in (
        ("flash", footprint.flash_max_bytes, core.flash_bytes),
        ("RAM", footprint.ram_max_bytes, core.ram_bytes),
    ):
        if reported != known:
            raise ToolError(
                f"the build reports a {what} ceiling of {reported} B for board {board!r}, but its"
                f" data says {known} B for core {core.version}",
                remedy="the board core's packaging changed: check it and correct the board file",
            )


def check_budget(footprint: Footprint, budget: Budget) -> None:
    """Raise :class:`DutFailure` when the firmware is over its budget."""
    for what, used, most in (
        ("flash", footprint.flash_bytes, budget.flash_bytes),
        ("RAM", footprint.ram_bytes, budget.ram_bytes),
    ):
        if used > most:
            raise DutFailure(
                f"{budget.sketch!r} takes {used} B of {what}, {used - most} B over its budget"
                f" of {most} B",
                remedy="find what grew (compare the link maps), or raise the budget in the board"
                " file and say why",
                evidence=(f"budget source: {budget.source}",),
            )
