"""Who can see a board otherwise than through its port, and what a wait asks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Crash:
    """A core that stands in a fault handler: one clause that says why, and its registers."""

    why: str
    evidence: tuple[str, ...]


class Witness(Protocol):
    """Asked by a session while nothing arrives; a board with no other way in has none."""

    def require_alive(self) -> None:
        """Raise the error that the end of what plays the board stands for; else return."""
        ...

    def crash(self) -> Crash | None:
        """How the core crashed, where it did and that can be seen."""
        ...

    def account(self) -> tuple[str, ...]:
        """All that can be told of a board that went silent, in printable lines; never raises."""
        ...
