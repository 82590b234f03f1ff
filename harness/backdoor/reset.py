"""Starting a board anew by whichever means helps: a list of methods, tried in order.

Pure: what a method does and how the board's return is seen are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.boards.board import ResetMethod
from harness.errors import DeviceError, HilError

TITLES: Mapping[ResetMethod, str] = {
    ResetMethod.OPENOCD: "reset through the board's debugger",
    ResetMethod.UPLOAD: "uploading again",
    ResetMethod.POWER: "switching its power",
}

NOT_BACK = "done, but the board did not come back"
HELPED = "the board came back"


@dataclass(frozen=True)
class ResetAttempt:
    """One method that was tried, or could not be, and what came of it."""

    method: ResetMethod
    helped: bool
    outcome: str

    def __str__(self) -> str:
        return f"{TITLES[self.method]}: {self.outcome}"


@dataclass(frozen=True)
class ResetResult:
    """A board that came back, and every attempt that it took; the last one helped."""

    attempts: tuple[ResetAttempt, ...]

    @property
    def method(self) -> ResetMethod:
        """The method that helped."""
        return self.attempts[-1].method


class BoardGivenUp(DeviceError):
    """No reset method brought the board back.

    Cause: the board, its cable or its power.  ``attempts`` has them all.  Remedy: by hand.
    """

    def __init__(self, board: str, attempts: tuple[ResetAttempt, ...]) -> None:
        tried = ", ".join(TITLES[each.method] for each in attempts) or "nothing could be tried"
        super().__init__(
            f"board {board!r} did not come back after a reset: {tried}",
            remedy="unplug it and plug it in again; where that helps, give the bench's inventory a"
            " command that switches its power",
            evidence=tuple(map(str, attempts)),
        )
        self.attempts = attempts


def reset_board(
    methods: Sequence[ResetMethod],
    attempts: Mapping[ResetMethod, Callable[[], None]],
    came_back: Callable[[], bool],
    *,
    board: str = "board",
) -> ResetResult:
    """Try ``methods`` in order until ``came_back`` says so.

    A method without an entry in ``attempts`` is recorded as not set up.  One that raises
    :class:`HilError` has failed, and the next is tried; so has one after which ``came_back`` raises
    it.  Raises :class:`BoardGivenUp` when none helped.  KeyboardInterrupt and errors of the bench's
    own code leave at once.
    """
    tried: list[ResetAttempt] = []
    for method in methods:
        act = attempts.get(method)
        if act is None:
            tried.append(ResetAttempt(method, helped=False, outcome="not set up for this board"))
            continue
        try:
            act()
            helped = came_back()
            outcome = HELPED if helped else NOT_BACK
        except HilError as error:
            helped, outcome = False, error.message
        tried.append(ResetAttempt(method, helped, outcome))
        if helped:
            return ResetResult(tuple(tried))
    raise BoardGivenUp(board, tuple(tried))
