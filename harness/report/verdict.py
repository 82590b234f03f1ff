"""What is concluded of one case, and why: the only words a report may use.

``passed``: the device did what was expected.  ``failed``: the device under test is wrong.
``fault``: bench, cable, tool or network is wrong, so nothing is known of the device; may be
retried.  ``skipped``: this machine or board lacks something, said in one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum

from harness.errors import CapabilityMissing, DutFailure, HilError


class Kind(Enum):
    """The four verdicts."""

    PASSED = "passed"
    FAILED = "failed"
    FAULT = "fault"
    SKIPPED = "skipped"


EXIT_PASSED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_FAULT = 3
EXIT_NOTHING_RAN = 4
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Diagnosis:
    """Why a verdict is not ``passed``: where, what was seen, what it means, what to do."""

    stage: str
    symptom: str
    cause: str
    remedy: str
    evidence: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Plain data for a report."""
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """One case's conclusion; ``diagnosis`` is None only for ``passed``."""

    kind: Kind
    diagnosis: Diagnosis | None = None


def verdict_of(error: BaseException, *, stage: str) -> Verdict:
    """The verdict that an exception from a case stands for.

    ``stage`` is used where the error itself names none.  An ``AssertionError`` is the case's own
    check of the device, so it is *failed*; anything that is neither that nor one of the bench's
    errors is a defect of the bench or of the case: a *fault*.
    """
    if isinstance(error, HilError):
        kind = Kind.FAULT
        if isinstance(error, DutFailure):
            kind = Kind.FAILED
        elif isinstance(error, CapabilityMissing):
            kind = Kind.SKIPPED
        return Verdict(
            kind,
            Diagnosis(
                stage=error.stage or stage,
                symptom=error.message,
                cause=error.cause or error.message,
                remedy=error.remedy,
                evidence=error.evidence,
            ),
        )
    if isinstance(error, AssertionError):
        text = str(error).strip() or "the assertion does not hold"
        return Verdict(
            Kind.FAILED,
            Diagnosis(
                stage=stage,
                symptom=text.splitlines()[0],
                cause="the device's answer is not the expected one",
                remedy="compare the transcript with the expectation in the test",
                evidence=tuple(text.splitlines()[1:12]),
            ),
        )
    return Verdict(
        Kind.FAULT,
        Diagnosis(
            stage=stage,
            symptom=f"{type(error).__name__}: {error}",
            cause="the bench or the test itself is broken",
            remedy="report it with the run's folder",
        ),
    )


def worst(kinds: Iterable[Kind]) -> Kind | None:
    """The verdict that stands for several: failed before fault before passed before skipped."""
    found = set(kinds)
    for kind in (Kind.FAILED, Kind.FAULT, Kind.PASSED, Kind.SKIPPED):
        if kind in found:
            return kind
    return None


def exit_code(kinds: Iterable[Kind]) -> int:
    """The process's exit code for a run with these verdicts."""
    return {
        None: EXIT_NOTHING_RAN,
        Kind.FAILED: EXIT_FAILED,
        Kind.FAULT: EXIT_FAULT,
        Kind.PASSED: EXIT_PASSED,
        Kind.SKIPPED: EXIT_NOTHING_RAN,
    }[worst(kinds)]
