"""Faults of a model on a real runtime, with no checkout and no board."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.boards.board import Lane
from harness.machine.doctor import why_not
from harness.report.verdict import EXIT_FAILED
from tests.child_run import PYTEST, ChildBench, Outcome

CASES = "tests/host/runtime_fault_cases.py"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """One run of them all."""
    if reason := why_not(Lane.HOST):
        pytest.skip(reason)
    out = tmp_path_factory.mktemp("out")
    with TemporaryDirectory(prefix="hil") as folder:
        # No checkout, whatever this machine is set up with: the wheel has a runtime of its own.
        child = ChildBench(Path(folder), out, {"HIL_CONFIG": "/dev/null", "HIL_EXECUTORCH": ""})
        yield child.run((*PYTEST, CASES, "-q", "--hil-board=host", f"--hil-out={out}"))


@pytest.mark.parametrize(
    ("name", "kind", "stage", "sentence"),
    [
        (
            "test_failed_arena_too_small[add]",
            "failed",
            "session",
            r"load_method failed with 0x21 on 'load \d+': .*allocation failed: \d+B requested",
        ),
        (
            "test_failed_wrong_output[add]",
            "failed",
            "case",
            r"wrong output: model 'add', case '.*', element \d is .* expected: off by 1 absolute",
        ),
        (
            "test_fault_earlier_model[add]",
            "fault",
            "session",
            r"the board on '.*' runs another build: its records carry '\w+' and '0123456789abcdef'",
        ),
    ],
)
def test_each_is_named(run: Outcome, name: str, kind: str, stage: str, sentence: str) -> None:
    case = run.case(name)
    assert (case["verdict"], case["diagnosis"]["stage"]) == (kind, stage), case
    assert re.match(sentence, case["diagnosis"]["symptom"]), case["diagnosis"]["symptom"]


def test_a_device_that_is_wrong_decides_the_exit_code(run: Outcome) -> None:
    assert run.code == EXIT_FAILED
    assert run.record["verdict"] == "failed"
    assert run.record["provenance"]["library"]["origin"] == "wheel"
