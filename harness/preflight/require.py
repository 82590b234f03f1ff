"""A preflight result as the error it stands for: a model that fails it is never flashed."""

from __future__ import annotations

from harness.errors import DutFailure
from harness.preflight.check import PreflightResult


def require_ok(result: PreflightResult, *, what: str) -> None:
    """Raise :class:`DutFailure` with the worst finding; ``what`` names the model in the message."""
    if result.ok:
        return
    worst = result.findings[0]
    raise DutFailure(
        f"{what} cannot work on this board: {result.verdict.value}: {worst.message}",
        cause=f"found on the host before flashing; the board would have said: {worst.device}",
        remedy=worst.remedy,
        evidence=tuple(f"{each.verdict.value}: {each.message}" for each in result.findings)[:12],
    )
