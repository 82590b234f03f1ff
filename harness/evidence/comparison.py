"""What a run said, what its replay says, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harness.evidence.plain import Plain
from harness.evidence.run_folder import RecordedCase, RunFolder
from harness.report.run_record import Measurement
from harness.report.text import diagnosis_text, printable
from harness.report.verdict import Diagnosis, Kind, Verdict

Outcome = Literal["same", "changed", "not judged"]

BEFORE_THE_BOARD = frozenset(
    {"board", "library", "model", "preflight", "sketch", "build", "footprint", "upload"}
)
"""Stages that end before the board says anything: no transcript can repeat them."""

_MEASURED = ("output", "flash_bytes", "ram_bytes", "arena_bytes", "instructions")
_KINDS = frozenset(kind.value for kind in Kind)


@dataclass(frozen=True)
class Judged:
    """One case, then and now.  ``why`` says why it was not judged."""

    nodeid: str
    outcome: Outcome
    recorded: str | None
    recorded_why: Diagnosis | None
    replayed: Verdict | None
    why: str = ""

    def as_json(self) -> dict[str, object]:
        """Plain data."""
        now = self.replayed
        return {
            "nodeid": self.nodeid,
            "outcome": self.outcome,
            "why": self.why,
            "recorded": {
                "verdict": self.recorded,
                "diagnosis": None if self.recorded_why is None else self.recorded_why.as_json(),
            },
            "replayed": None
            if now is None
            else {
                "verdict": now.kind.value,
                "diagnosis": None if now.diagnosis is None else now.diagnosis.as_json(),
            },
        }


def why_not(case: RecordedCase) -> str | None:
    """Why no replay can judge this case, as far as that is known before; None when one can."""
    if case.verdict is None:
        return "the run ended before the case did, so it has no verdict"
    if case.verdict not in _KINDS:
        return f"its recorded verdict {case.verdict[:20]!r} is none that this bench knows"
    if case.verdict == Kind.SKIPPED.value:
        return f"it was skipped: {case.symptom}"
    if case.verdict != Kind.PASSED.value and case.stage in BEFORE_THE_BOARD:
        return f"it ended in stage {case.stage!r}, before the board said anything"
    return None


def judge(case: RecordedCase, now: Verdict | None, why: str | None) -> Judged:
    """The recorded case beside its replay; ``why``: it could not be judged after all."""
    then = recorded_diagnosis(case)
    if why is not None or now is None:
        told = why or "no case of that name was found to judge it by"
        return Judged(case.nodeid, "not judged", case.verdict, then, None, told)
    if now.kind is Kind.SKIPPED:
        return Judged(case.nodeid, "not judged", case.verdict, then, None, _skipped(now))
    same = now.kind.value == case.verdict and _symptom(now.diagnosis) == _symptom(then)
    return Judged(case.nodeid, "same" if same else "changed", case.verdict, then, now)


def _skipped(now: Verdict) -> str:
    return f"it is skipped now: {_symptom(now.diagnosis)}"


def recorded_diagnosis(case: RecordedCase) -> Diagnosis | None:
    """Why the recorded case did not pass."""
    if not case.symptom:
        return None
    return Diagnosis(case.stage, case.symptom, case.cause, case.remedy)


def _symptom(diagnosis: Diagnosis | None) -> str:
    return "" if diagnosis is None else diagnosis.symptom


def measured_otherwise(record: Plain | None, now: Iterable[Measurement]) -> list[str]:
    """A sentence for each figure that differs."""
    then = {} if record is None else {each.text("subject"): each for each in _rows(record)}
    found = []
    for each in now:
        before = then.get(each.subject)
        if before is None:
            continue
        for what in _MEASURED:
            old, new = before.content.get(what), getattr(each, what)
            # Several cases fill one row; those that were not judged left nothing.
            if new is not None and old != new:
                found.append(f"{each.subject}: {what} was {old!r} and is {new!r}")
    return found


def _rows(record: Plain) -> tuple[Plain, ...]:
    return record.parts("measurements")


@dataclass(frozen=True)
class Comparison:
    """The result of a replay."""

    run: RunFolder
    cases: tuple[Judged, ...]
    figures: tuple[str, ...]
    remarks: tuple[str, ...]

    def of(self, outcome: Outcome) -> tuple[Judged, ...]:
        """The cases with that outcome."""
        return tuple(each for each in self.cases if each.outcome == outcome)

    def as_json(self) -> dict[str, object]:
        """Plain data."""
        outcomes: tuple[Outcome, ...] = ("same", "changed", "not judged")
        return {
            "format": 1,
            "board": self.run.begun.text("board"),
            "core_version": self.run.begun.text("core_version"),
            "complete": self.run.record is not None,
            "counts": {each: len(self.of(each)) for each in outcomes},
            "cases": [each.as_json() for each in self.cases],
            "figures": list(self.figures),
            "remarks": list(self.remarks),
        }

    def lines(self, named: str) -> list[str]:
        """For a terminal: what changed in full, the rest counted; ``named``: the run's name."""
        begun = self.run.begun
        words = {key: printable(begun.text(key)) for key in ("board", "core_version", "started")}
        shown = [
            "replay of {0}: board {board}, core {core_version}, recorded {started}".format(
                printable(named), **words
            )
        ]
        if self.run.record is None:
            shown.append("the run was cut off: it is judged as far as it goes")
        stand_in = begun.text_or_none("stand_in")
        if stand_in is not None:
            shown.append(f"no board ran: {printable(stand_in, limit=1000)}")
        shown += [f"note: {printable(each, limit=1000)}" for each in self.remarks]
        for each in self.of("changed"):
            shown.append(f"CHANGED {printable(each.nodeid)}")
            shown += _then(each) + _now(each)
        shown += [f"measured otherwise: {printable(each, limit=500)}" for each in self.figures]
        reasons: dict[str, list[str]] = {}
        for each in self.of("not judged"):
            reasons.setdefault(each.why, []).append(each.nodeid)
        for why, names in reasons.items():
            shown.append(f"not judged {len(names)}: {printable(why, limit=500)}")
            shown += [f"  {printable(name)}" for name in names[:8]]
            if len(names) > 8:
                shown.append(f"  and {len(names) - 8} more")
        counts = [f"{len(self.of('same'))} same", f"{len(self.of('changed'))} changed"]
        shown.append(", ".join([*counts, f"{len(self.of('not judged'))} not judged"]))
        return shown


def _then(each: Judged) -> list[str]:
    if each.recorded_why is None:
        return [f"  then: {each.recorded}"]
    text = diagnosis_text(each.recorded or "no verdict", each.recorded_why)
    return [f"  then: {text.splitlines()[0]}", *(f"  {x}" for x in text.splitlines()[1:])]


def _now(each: Judged) -> list[str]:
    verdict = each.replayed
    if verdict is None or verdict.diagnosis is None:
        return [f"  now:  {verdict.kind.value if verdict else 'no verdict'}"]
    text = diagnosis_text(verdict.kind.value, verdict.diagnosis)
    return [f"  now:  {text.splitlines()[0]}", *(f"  {x}" for x in text.splitlines()[1:])]
