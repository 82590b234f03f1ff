"""What a run in somebody else's repository shows and leaves."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from harness.report.case_folder import safe_name
from harness.report.verdict import EXIT_FAILED
from harness.storage.digest import file_digest
from tests.child_run import Outcome

VERDICTS = {
    "test_greets": ("passed", None),
    "test_fails_with_hostile_words": ("failed", "case"),
    "test_expects_what_never_comes": ("failed", "session"),
    "test_prints_what_the_device_said": ("fault", "case"),
    "test_hangs": ("fault", "case"),
    "test_is_skipped": ("skipped", "case"),
    "test_is_broken": ("fault", "case"),
    "test_fails_as_expected": ("skipped", "case"),
    "test_ten_megabytes_without_a_newline": ("passed", None),
    "test_forgets_its_sketch": ("fault", "setup"),
    "test_crashes": ("failed", "session"),
}


def test_every_test_has_its_verdict_and_stage(sample: Outcome) -> None:
    seen = {
        each["nodeid"].partition("::")[2]: (
            each["verdict"],
            each["diagnosis"] and each["diagnosis"]["stage"],
        )
        for each in sample.record["cases"]
    }
    assert seen == VERDICTS
    assert sample.code == EXIT_FAILED


def test_control_characters_never_reach_the_terminal(sample: Outcome) -> None:
    assert b"\x1b]0;title" in sample.said
    raw = [each for each in sample.shown if not each.isprintable() and each not in "\n\t"]
    assert raw == []
    assert r"\x1b[31mred" in sample.shown


def test_a_long_line_is_kept_whole_and_shown_in_part(sample: Outcome) -> None:
    assert max(len(line) for line in sample.said.split(b"\n")) == 10 * 1024 * 1024
    log = (
        sample.out / "cases" / safe_name(sample.case("without_a_newline")["nodeid"]) / "serial.log"
    )
    assert log.stat().st_size < 2000
    assert "bytes more]" in log.read_text()


def test_a_test_that_hangs_is_a_fault_with_its_transcript(sample: Outcome) -> None:
    diagnosis = sample.case("test_hangs")["diagnosis"]
    assert diagnosis["symptom"].startswith("the test did not end in time: Timeout (>2")
    assert "hello from a stranger's sketch" in diagnosis["evidence"]
    log = sample.out / "cases" / safe_name(sample.case("test_hangs")["nodeid"]) / "serial.log"
    assert "hello from a stranger's sketch" in log.read_text()


def test_a_native_sketch_that_crashes_is_the_devices_own_fault(sample: Outcome) -> None:
    diagnosis = sample.case("test_crashes")["diagnosis"]
    expected = r"the sketch on board 'HILHOST0001' died: it was ended by SIG(SEGV|BUS|ILL)"
    assert re.match(expected, diagnosis["symptom"]), diagnosis["symptom"]
    assert "about to crash" in diagnosis["evidence"]


def test_a_missing_mark_is_one_sentence(sample: Outcome) -> None:
    assert "the dut fixture does not know which sketch to run" in sample.shown
    assert "Traceback" not in sample.shown


def test_skip_reasons_are_one_line(sample: Outcome) -> None:
    (line,) = [each for each in sample.shown.splitlines() if each.startswith("SKIPPED")]
    assert re.match(r"SKIPPED \[1\] test_sample\.py:\d+: host has no\\nlaser: buy one", line), line


def test_the_manifest_names_every_file_and_comes_last(sample: Outcome) -> None:
    files = {
        str(path.relative_to(sample.out)): {
            "bytes": path.stat().st_size,
            "sha256": file_digest(path),
        }
        for path in sample.out.rglob("*")
        if path.is_file() and path.name != "run.json"
    }
    assert sample.record["files"] == files
    assert {"junit.xml", "serial/serial.rx.bin", "serial/serial.jsonl"} <= set(files)
    newest = max(path.stat().st_mtime_ns for path in sample.out.rglob("*") if path.is_file())
    assert (sample.out / "run.json").stat().st_mtime_ns == newest


def test_junit_has_every_verdict(sample: Outcome) -> None:
    text = (sample.out / "junit.xml").read_text(encoding="utf-8")
    found = re.findall(r'<testcase [^>]*name="(\w+)".*?hil_verdict" value="(\w+)"', text, re.S)
    assert dict(found) == {name: verdict for name, (verdict, _) in VERDICTS.items()}


@pytest.fixture
def allure(sample: Outcome) -> dict[str, Any]:
    """Allure's results by test name, and every container under ``""``."""
    folder = sample.out / "allure"
    results = [json.loads(path.read_text()) for path in folder.glob("*-result.json")]
    containers = [json.loads(path.read_text()) for path in folder.glob("*-container.json")]
    return {"": containers, **{each["name"]: each for each in results}}


def test_allure_has_a_step_for_each_stage(allure: dict[str, Any]) -> None:
    def steps(node: dict[str, Any]) -> list[str]:
        below = [*node.get("befores", []), *node.get("steps", [])]
        return [str(node.get("name")), *(name for each in below for name in steps(each))]

    names = {name for container in allure[""] for name in steps(container)}
    assert {"build", "footprint", "upload"} <= names


def test_allure_tells_failed_from_broken_and_has_the_evidence(
    allure: dict[str, Any], sample: Outcome
) -> None:
    assert allure["test_greets"]["status"] == "passed"
    assert allure["test_expects_what_never_comes"]["status"] == "failed"
    assert allure["test_hangs"]["status"] == "broken"
    assert allure["test_is_skipped"]["status"] == "skipped"
    attached = {
        each["name"]: (sample.out / "allure" / each["source"]).read_text()
        for each in allure["test_expects_what_never_comes"]["attachments"]
    }
    assert "did not print 'more'" in attached["diagnosis"]
    assert "hello from a stranger's sketch" in attached["serial output"]
