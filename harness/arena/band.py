"""The result: for each size what the data says, what was measured, and whether they agree."""

from __future__ import annotations

from dataclasses import dataclass

from harness.arena.canary import CanaryResult
from harness.arena.lower import Attempt, LowerSide, Outcome
from harness.arena.plan import Plan, PlannedSize
from harness.arena.upper import UpperSide
from harness.boards.board import Standing
from harness.report.verdict import EXIT_FAILED, EXIT_PASSED


@dataclass(frozen=True)
class On:
    """What a band was measured on.

    ``stand_in``: the board is the stand-in of real hardware, so it says nothing of that hardware's
    core.  ``emulated``: QEMU is the board itself.
    """

    board: str
    core_version: str
    sketch: str
    serial_number: str
    library: str
    exporter: str
    stand_in: bool
    emulated: bool

    @property
    def kind(self) -> str:
        """For people: what kind of board it was."""
        if self.stand_in:
            return "the stand-in, not a real board"
        return "an emulated board" if self.emulated else "a real board"


@dataclass(frozen=True)
class Row:
    """One size: what the data says of it, and what was found."""

    planned: PlannedSize
    attempt: Attempt
    inferred: bool
    reach_bytes: int
    fits_ram: bool
    canary: CanaryResult | None

    @property
    def size_bytes(self) -> int:
        """The arena."""
        return self.planned.size_bytes

    @property
    def loads(self) -> bool | None:
        """Whether the model loads and answers in it; None where that is not known.

        A size beyond the runner's is ``inferred`` to load where a smaller one does: the pool is a
        bump allocator.
        """
        if self.attempt.outcome is Outcome.NOT_LOADED:
            return True if self.inferred else None
        return self.attempt.works

    @property
    def safe(self) -> bool:
        """Whether nothing says that its globals share memory with what the core keeps."""
        found = self.canary is not None and bool(self.canary.findings)
        return self.reach_bytes == 0 and self.fits_ram and not found

    @property
    def contradiction(self) -> str | None:
        """One sentence where the data expects something else, else None."""
        expected = self.planned.works
        if expected is None:
            return None
        if self.loads is not None and self.loads is not expected:
            return (
                f"an arena of {self.size_bytes} B is {self.planned.label.value} by the data,"
                f" and here it {'works' if self.loads else self.attempt.outcome.value}"
            )
        if expected and not self.fits_ram:
            return (
                f"an arena of {self.size_bytes} B is {self.planned.label.value} by the data, and"
                " here the globals do not fit the board's RAM"
            )
        if expected and self.reach_bytes:
            return (
                f"an arena of {self.size_bytes} B is {self.planned.label.value} by the data, and"
                f" here the globals reach {self.reach_bytes} B into what the core reserves"
            )
        if expected and self.canary is not None and self.canary.findings:
            return (
                f"an arena of {self.size_bytes} B is {self.planned.label.value} by the data, and"
                f" the canary found: {self.canary.findings[0]}"
            )
        return None


@dataclass(frozen=True)
class Band:
    """Everything that one run found for one core version and sketch.

    ``flashes`` are the uploads for the lower side, ``canary_flashes`` those of the canary: one a
    size.  ``when`` is UTC, ISO 8601.
    """

    on: On
    when: str
    plan: Plan
    lower: LowerSide
    upper: UpperSide
    rows: tuple[Row, ...]
    flashes: int
    canary_flashes: int

    @property
    def contradictions(self) -> tuple[str, ...]:
        """A sentence for every size that contradicts the data."""
        return tuple(row.contradiction for row in self.rows if row.contradiction is not None)

    @property
    def exit_code(self) -> int:
        """1 where a result contradicts what the data says was measured; what is only reported
        is shown and fails nothing.
        """
        measured = self.plan.standing is Standing.MEASURED
        return EXIT_FAILED if measured and self.contradictions else EXIT_PASSED


def make_band(
    *,
    on: On,
    when: str,
    plan: Plan,
    lower: LowerSide,
    upper: UpperSide,
    canaries: tuple[CanaryResult, ...],
    flashes: int,
) -> Band:
    """Put both sides and the canary's results beside the plan."""
    by_size = {each.size_bytes: each for each in canaries}
    smallest = lower.smallest_bytes
    rows = tuple(
        Row(
            planned=planned,
            attempt=lower.at(planned.size_bytes),
            inferred=smallest is not None and planned.size_bytes >= smallest,
            reach_bytes=upper.reach_bytes(planned.size_bytes),
            fits_ram=upper.fits_ram(planned.size_bytes),
            canary=by_size.get(planned.size_bytes),
        )
        for planned in plan.sizes
    )
    return Band(
        on=on,
        when=when,
        plan=plan,
        lower=lower,
        upper=upper,
        rows=rows,
        flashes=flashes,
        canary_flashes=len(canaries),
    )
