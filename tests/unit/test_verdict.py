from __future__ import annotations

import pytest

from harness.errors import (
    BenchError,
    CapabilityMissing,
    DeviceError,
    DutFailure,
    ToolError,
    in_stage,
)
from harness.report.text import skipped_text
from harness.report.verdict import Diagnosis, Kind, exit_code, verdict_of, worst


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DutFailure("m", remedy="r"), Kind.FAILED),
        (AssertionError("a\nb"), Kind.FAILED),
        (ToolError("m", remedy="r"), Kind.FAULT),
        (DeviceError("m", remedy="r"), Kind.FAULT),
        (BenchError("m", remedy="r"), Kind.FAULT),
        (ValueError("m"), Kind.FAULT),
        (CapabilityMissing("m", remedy="r"), Kind.SKIPPED),
    ],
)
def test_kind_follows_whose_fault_it_is(error: BaseException, kind: Kind) -> None:
    verdict = verdict_of(error, stage="build")
    assert verdict.kind is kind
    assert verdict.diagnosis is not None
    assert verdict.diagnosis.stage == "build"
    assert verdict.diagnosis.remedy


def test_innermost_stage_stays() -> None:
    with pytest.raises(ToolError) as caught, in_stage("outer"), in_stage("inner"):
        raise ToolError("m", remedy="r")
    diagnosis = verdict_of(caught.value, stage="case").diagnosis
    assert diagnosis is not None
    assert diagnosis.stage == "inner"


def test_exit_codes_tell_failed_from_fault_and_from_nothing() -> None:
    assert exit_code([Kind.PASSED, Kind.SKIPPED]) == 0
    assert exit_code([Kind.PASSED, Kind.FAULT]) == 3
    assert exit_code([Kind.FAULT, Kind.FAILED]) == 1
    assert exit_code([Kind.SKIPPED]) == 4
    assert exit_code([]) == 4
    assert worst([]) is None


def test_skips_are_told_once_for_each_remedy() -> None:
    def lacking(what: str, remedy: str) -> Diagnosis:
        return Diagnosis("library", what, what, remedy)

    lines = skipped_text(
        [lacking("no A", "give A"), lacking("no B", "give B"), lacking("no A either", "give A")]
    )
    assert lines == ["skipped 2: no A: give A", "skipped 1: no B: give B"]
    assert skipped_text([]) == []
