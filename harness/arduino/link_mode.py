"""The Zephyr core's link mode: a dynamic build keeps every operator, and the library does not fit.

Dynamic is the core's default, for each sketch anew, so it is refused before a compile's minutes.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.boards.board import Board
from harness.errors import DutFailure, UsageError

STATIC_BYTES = 507_876
DYNAMIC_BYTES = 787_508
FIGURES = (
    f"AddModel on core 0.90.0 takes {STATIC_BYTES:,} B linked statically and {DYNAMIC_BYTES:,} B"
    " dynamically"
)
"""From the library's README, measured by its authors on a Uno Q."""

_WHY = (
    "the README: a dynamic link is relocatable (-r), which makes --gc-sections inert, so that"
    " every operator stays"
)


def fqbn_options(fqbn: str) -> Mapping[str, str]:
    """The menu options that a FQBN sets: ``a:b:c:link_mode=static`` has one."""
    parts = fqbn.split(":")
    pairs = (each.partition("=") for each in parts[3].split(",")) if len(parts) > 3 else ()
    return {name: value for name, _, value in pairs}


def is_dynamic(board: Board) -> bool:
    """Whether the board's core has link modes and its FQBN does not choose the static one."""
    return board.linux_side is not None and fqbn_options(board.fqbn).get("link_mode") != "static"


def require_static(board: Board) -> None:
    """Raise :class:`UsageError` for a FQBN that would link dynamically."""
    if not is_dynamic(board):
        return
    chosen = fqbn_options(board.fqbn).get("link_mode")
    said = f"says link_mode={chosen}" if chosen else "leaves link_mode at its default, dynamic"
    raise UsageError(
        f"FQBN {board.fqbn!r} of board {board.name!r} {said}, which does not fit: {FIGURES}",
        remedy=f"write link_mode=static into {board.path}",
        evidence=(_WHY,),
    )


def overflow(sketch: str, board: str, evidence: tuple[str, ...]) -> DutFailure:
    """What a dynamic build that was forced, and overflowed, stands for."""
    return DutFailure(
        f"flash overflow: {sketch!r} for board {board!r} is linked dynamically; {FIGURES}",
        remedy="build it with link_mode=static",
        evidence=(_WHY, *evidence),
    )
