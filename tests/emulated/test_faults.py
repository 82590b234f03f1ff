"""Every fault of the device under test and of the way to it: made, caught, named, cleaned up."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.report.case_folder import safe_name
from harness.report.verdict import EXIT_FAILED, EXIT_FAULT
from tests.child_run import PYTEST, ChildBench, Outcome
from tests.registrations import library

CASES = "tests/emulated/fault_cases.py"


@dataclass(frozen=True)
class Named:
    """What a fault must be called: stage, its first sentence, and a line of the evidence."""

    stage: str
    sentence: str
    evidence: str = ""


FAILED: Mapping[str, Named] = {
    "test_failed_build[does_not_compile]": Named(
        "build",
        r"sketch 'does_not_compile' does not compile for board 'm33': does_not_compile\.ino:4:3:"
        r" 'nothing_declares_this' was not declared",
        "nothing_declares_this",
    ),
    "test_failed_build[no_model]": Named("sketch", r"sketch 'no_model' includes model\.h, but"),
    "test_failed_build[flash_overflow]": Named(
        "build",
        r"flash overflow: 'flash_overflow' does not fit board 'm33', over by \d+ B",
        r"region `FLASH' overflowed by \d+ bytes",
    ),
    "test_failed_build[ram_overflow]": Named(
        "build",
        r"RAM overflow: 'ram_overflow' does not fit board 'm33', over by \d+ B",
        r"region `RAM' overflowed by \d+ bytes",
    ),
    "test_failed_wrong_output": Named(
        "case", r"wrong output: AddModel's answer is \(2\.0, 3\.0, 5\.0\), \(2\.0, 3\.0, 4\.0\) was"
    ),
    "test_failed_crash": Named(
        "session",
        r"the board on '.*' crashed: precise data bus error, .* at pc 0x1000.*, address 0xdead0000",
        r"stacked: .*r3=0xdead0000",
    ),
    "test_failed_model[of_m55]": Named(
        "preflight", r"the model .*: target-skew: 'cortex_m::quantized_linear\.out' .* another core"
    ),
    "test_failed_model[other_exporter]": Named(
        "preflight", r"the model .*: schema-skew: .* is given 14 arguments, .* takes 15"
    ),
    "test_failed_model[operator_missing]": Named(
        "preflight", r"the model .*: operator-missing: 'aten::convolution\.out' at 0:0 is not in"
    ),
    "test_failed_model[truncated]": Named(
        "preflight", r"the model .*: corrupt: .* the file is 300: it was cut short or damaged"
    ),
}

FAULT: Mapping[str, Named] = {
    "test_fault_silent": Named(
        "session", r"the board on '.*' sent nothing since it was flashed or reset: 'a word' was"
    ),
    "test_fault_silent_after_another": Named(
        "session",
        r"the board on '.*' sent nothing since it was flashed or reset: '0123456789' was",
        "0123456789",
    ),
    "test_fault_reset_loop": Named(
        "session", r"the board on '.*' resets in a loop: it started 3 times", r'"v":"boot"'
    ),
    "test_fault_record[model]": Named(
        "session", r"the stream of '.*' is corrupt: a record arrived torn", r"damaged: @hil "
    ),
    "test_fault_record[library]": Named(
        "session", r"the stream of '.*' is corrupt: a record arrived corrupt \(its checksum"
    ),
    "test_fault_record[program]": Named(
        "session", r"the stream of '.*' is corrupt: record \d+ \('program'\) came more often"
    ),
    "test_fault_earlier_firmware": Named(
        "session",
        r"the board on '.*' runs another build: its records carry 'fault' and 'the nonce of a",
    ),
    "test_fault_qemu_dies": Named(
        "session", r"the chip of board 'HILM330001' died: QEMU was ended by SIGKILL", "echo ready"
    ),
}


@pytest.fixture(scope="module")
def some_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of kernel registrations only: what preflight reads, and nothing to compile."""
    root = library(tmp_path_factory.mktemp("library") / "ExecuTorch")
    (root / "library.properties").write_text("name=ExecuTorch\nversion=0.0.1\n")
    (root / "src" / "ExecuTorch.h").write_text("#pragma once\n")
    return root


def run_cases(folder: Path, out: Path, chosen: str, *options: str, board: str = "m33") -> Outcome:
    words = (CASES, "-q", "-k", chosen, f"--hil-board={board}", f"--hil-out={out}", *options)
    return ChildBench(folder, out, {}).run((*PYTEST, *words, f"--junitxml={out / 'junit.xml'}"))


@pytest.fixture(scope="module")
def failed(
    child_folder: Path, tmp_path_factory: pytest.TempPathFactory, some_library: Path
) -> Outcome:
    """One run of everything that is the device's own fault."""
    out = tmp_path_factory.mktemp("failed")
    return run_cases(child_folder, out, "test_failed", f"--hil-library={some_library}")


@pytest.fixture(scope="module")
def fault(child_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One run of everything that says nothing of the device."""
    return run_cases(child_folder, tmp_path_factory.mktemp("fault"), "test_fault_")


def require_named(run: Outcome, name: str, kind: str, named: Named) -> None:
    case = run.case(name)
    diagnosis = case["diagnosis"]
    assert (case["verdict"], diagnosis["stage"]) == (kind, named.stage), diagnosis
    assert re.match(named.sentence, diagnosis["symptom"]), diagnosis["symptom"]
    assert "\n" not in diagnosis["symptom"]
    assert diagnosis["remedy"]
    assert re.search(named.evidence, "\n".join(diagnosis["evidence"])), diagnosis["evidence"]
    assert f"{kind} in {named.stage}: " in run.shown
    kept = run.out / "cases" / safe_name(case["nodeid"]) / "diagnosis.json"
    assert json.loads(kept.read_text())["diagnosis"] == diagnosis
    assert str(kept.relative_to(run.out)) in run.record["files"]


@pytest.mark.parametrize("name", FAILED)
def test_a_device_that_is_wrong_fails(failed: Outcome, name: str) -> None:
    require_named(failed, name, "failed", FAILED[name])


def test_nothing_else_failed_and_the_exit_code_says_so(failed: Outcome) -> None:
    verdicts = {
        each["nodeid"].partition("::")[2]: each["verdict"] for each in failed.record["cases"]
    }
    assert verdicts == {**dict.fromkeys(FAILED, "failed"), "test_failed_model[of_m33]": "passed"}
    assert failed.code == EXIT_FAILED
    assert failed.record["verdict"] == "failed"
    assert "Traceback" not in failed.shown


def test_a_model_that_fails_preflight_is_never_flashed(failed: Outcome) -> None:
    # Of all models only the good one came to the board, and its sketch is silent.
    assert failed.said.splitlines()[-1] == b"about to crash"
    assert 'ROOT_OPS="aten::add.out,aten::convolution.out"' in failed.shown


def test_a_model_of_the_m33_fails_on_an_m55(
    child_folder: Path, tmp_path: Path, some_library: Path
) -> None:
    run = run_cases(child_folder, tmp_path, "of_m33", f"--hil-library={some_library}", board="m55")
    expected = r"the model .*: target-skew: .* has no kernel_sum, which the mve kernel demands"
    require_named(run, "[of_m33]", "failed", Named("preflight", expected))
    assert run.code == EXIT_FAILED
    assert not (run.out / "serial").exists()


@pytest.mark.parametrize("name", FAULT)
def test_what_says_nothing_of_the_device_is_a_fault(fault: Outcome, name: str) -> None:
    require_named(fault, name, "fault", FAULT[name])


def test_faults_have_an_exit_code_of_their_own(fault: Outcome) -> None:
    assert {each["verdict"] for each in fault.record["cases"]} == {"fault"}
    assert len(fault.record["cases"]) == len(FAULT)
    assert fault.code == EXIT_FAULT
    assert "FAULTS (the bench, not the device)" in fault.shown
    assert "Traceback" not in fault.shown


def test_a_dead_emulator_is_noticed_long_before_the_timeout(fault: Outcome) -> None:
    assert fault.case("test_fault_qemu_dies")["duration_s"] < 30


def test_each_tests_conversation_is_kept_apart(fault: Outcome) -> None:
    nodeid = fault.case("test_fault_reset_loop")["nodeid"]
    log = (fault.out / "cases" / safe_name(nodeid) / "serial.log").read_text()
    assert '@hil {"n":"loop"' in log
    assert '"n":"fault"' not in log
    assert b'"n":"fault"' in fault.said


def test_junit_has_the_verdict_of_each(fault: Outcome) -> None:
    text = (fault.out / "junit.xml").read_text()
    assert text.count('<property name="hil_verdict" value="fault" />') == len(FAULT)
