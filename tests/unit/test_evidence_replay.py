"""A recorded run judged again: by the same cases, through the same session and errors."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import process
from harness.report.verdict import Diagnosis, Kind, Verdict
from tests.child_run import HIL, ROOT
from tests.unit.recorded_run import (
    ANSWER,
    CASES,
    KEY,
    PASSED,
    Recorder,
    edit,
    failing,
    passing,
    renew,
    silent,
)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        assert self.out, self.err
        content: dict[str, Any] = json.loads(self.out)
        return content

    def outcome(self, name: str) -> str:
        (found,) = [each for each in self.json["cases"] if each["nodeid"].endswith(f"::{name}")]
        return str(found["outcome"])


def hil(*words: str) -> Result:
    """The command in a process of its own: pytest does not run inside of pytest here."""
    done = process.run((*HIL, *words), timeout_s=60, cwd=ROOT)
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "test_cases.py"
    path.parent.mkdir()
    path.write_text(CASES, encoding="utf-8")
    return path


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "run")


def replay(folder: Path, tests: Path) -> Result:
    return hil("replay", str(folder), "--json", "--tests", str(tests))


def test_a_passing_a_failing_and_a_faulting_case_are_judged_the_same(
    recorder: Recorder, tests: Path
) -> None:
    passing(recorder)
    failing(recorder)
    silent(recorder)
    result = replay(recorder.finish(), tests)
    assert result.json["counts"] == {"same": 3, "changed": 0, "not judged": 0}, result.out
    assert result.code == 0
    assert result.json["complete"] is True


def test_a_wrong_answer_edited_into_the_transcript_flips_the_verdict(
    recorder: Recorder, tests: Path
) -> None:
    passing(recorder)
    folder = recorder.finish()
    edit(folder / "serial" / "serial.rx.bin", b"3.00, 4.00]", b"3.00, 5.00]")
    renew(folder)
    result = replay(folder, tests)
    assert result.code == 1
    (case,) = result.json["cases"]
    assert (case["outcome"], case["recorded"]["verdict"]) == ("changed", "passed")
    assert case["replayed"]["verdict"] == "failed"
    assert (
        "(2.0, 3.0, 5.0), (2.0, 3.0, 4.0) was expected" in case["replayed"]["diagnosis"]["symptom"]
    )
    assert result.json["figures"] == [
        "adder: output was '(2.0, 3.0, 4.0)' and is '(2.0, 3.0, 5.0)'"
    ]
    shown = hil("replay", str(folder), "--tests", str(tests)).out
    assert "CHANGED test_cases.py::test_answers\n  then: passed\n  now:  failed in case" in shown


def test_a_failure_that_is_now_another_failure_is_a_change(recorder: Recorder, tests: Path) -> None:
    failing(recorder)
    folder = recorder.finish()
    edit(
        folder / "cases" / next(iter(_cases(folder))) / "case.json",
        b'"symptom": "the',
        b'"symptom": "how the',
    )
    renew(folder)
    result = replay(folder, tests)
    assert (result.code, result.outcome("test_waits")) == (1, "changed")


def _cases(folder: Path) -> list[str]:
    return [each.name for each in (folder / "cases").iterdir()]


def test_an_answer_that_came_after_the_limit_still_fails(recorder: Recorder, tests: Path) -> None:
    log = recorder.begin("test_waits")
    recorder.boot(log)
    recorder.rx(b"=== add ===\n")
    recorder.rx(b"never\n", after_s=3.0)
    recorder.end(log)
    result = replay(recorder.finish(), tests)
    (case,) = result.json["cases"]
    assert case["replayed"]["verdict"] == "failed"
    assert "did not print 'never' within 2 s" in case["replayed"]["diagnosis"]["symptom"]


def test_what_the_board_said_before_it_was_flashed_is_not_believed(
    recorder: Recorder, tests: Path
) -> None:
    log = recorder.begin("test_answers")
    recorder.rx(b"=== add ===\n" + ANSWER)
    recorder.boot(log)
    recorder.end(log, after_s=11)
    result = replay(recorder.finish(), tests)
    (case,) = result.json["cases"]
    assert case["replayed"]["verdict"] == "fault"
    assert "sent nothing since it was flashed" in case["replayed"]["diagnosis"]["symptom"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("serial/serial.tx.bin", b"go\n", b"no\n"),
            "sends b'go\\n', and the recorded run sent b'no",
        ),
        (("cases/*/case.json", KEY.encode(), b"cd" * 32), "starts firmware 'cdcd"),
        (
            ("cases/*/case.json", b'"adder",\n   "key"', b'"other",\n   "key"'),
            "a firmware of sketch",
        ),
    ],
)
def test_another_conversation_is_not_judged(
    recorder: Recorder, tests: Path, change: tuple[str, bytes, bytes], why: str
) -> None:
    passing(recorder)
    folder = recorder.finish()
    (path,) = folder.glob(change[0])
    edit(path, *change[1:])
    renew(folder)
    result = replay(folder, tests)
    (case,) = result.json["cases"]
    assert (case["outcome"], result.code) == ("not judged", 0)
    assert why in case["why"]


TIMED_OUT = Diagnosis("call", "the test did not end in time", "it hung", "raise the limit")


@pytest.mark.parametrize(
    ("then", "outcome"),
    [
        # What would have come is not known.
        (Verdict(Kind.FAULT, TIMED_OUT), "not judged"),
        # It was satisfied by these bytes, and is no longer.
        (PASSED, "changed"),
    ],
)
def test_a_case_that_waits_beyond_the_recording(
    recorder: Recorder, tests: Path, then: Verdict, outcome: str
) -> None:
    log = recorder.begin("test_waits")
    recorder.boot(log)
    recorder.rx(b"=== add ===\n")
    recorder.end(log, then, after_s=0.5)
    result = replay(recorder.finish(), tests)
    (case,) = result.json["cases"]
    assert (case["outcome"], result.code) == (outcome, int(outcome == "changed"))
    told = case["why"] or case["replayed"]["diagnosis"]["symptom"]
    assert "the recording ends before the case knows what it waits for" in told


def test_a_run_that_was_cut_off_is_judged_as_far_as_it_goes(
    recorder: Recorder, tests: Path
) -> None:
    passing(recorder)
    log = recorder.begin("test_waits")
    recorder.boot(log)
    log.write(recorder.folder / "cases" / "unfinished", None)
    with (recorder.folder / "serial" / "serial.jsonl").open("ab") as stream:
        stream.write(b'{"at_s": 1')
    result = replay(recorder.folder, tests)
    assert result.code == 0
    assert result.json["complete"] is False
    assert (result.outcome("test_answers"), result.outcome("test_waits")) == ("same", "not judged")
    assert result.json["remarks"] == ["the index ends in the middle of a line: the run was killed"]


def test_cases_that_are_no_longer_there_and_old_runs_are_not_judged(
    recorder: Recorder, tests: Path
) -> None:
    passing(recorder)
    failing(recorder)
    folder = recorder.finish()
    shutil.rmtree(folder / "cases" / next(name for name in _cases(folder) if "waits" in name))
    renew(folder)
    tests.write_text("def test_another():\n    assert False\n", encoding="utf-8")
    result = replay(folder, tests)
    assert {each["why"] for each in result.json["cases"]} == {
        "no case of that name was found to judge it by",
        "it left no case.json to judge it by",
    }


@pytest.mark.parametrize("how", ["option", "record", "neither"])
def test_a_stand_in_is_one_again(tmp_path: Path, tests: Path, how: str) -> None:
    recorder = Recorder(tmp_path / "run", ("hil", *(["--virtual"] if how == "option" else [])))
    if how == "record":
        recorder.record.stand_in = "a stand-in, which shows nothing of silicon"
        recorder.record.begin()
    log = recorder.begin("test_needs_a_stand_in")
    recorder.end(log)
    folder = recorder.finish()
    result = replay(folder, tests)
    (case,) = result.json["cases"]
    if how == "neither":
        assert case["why"] == "it is skipped now: it is a real board"
    else:
        assert case["outcome"] == "same"
    shown = hil("replay", str(folder), "--tests", str(tests)).out
    assert ("no board ran: a stand-in, which" in shown) is (how == "record")


def test_nothing_of_the_folder_reaches_the_command_line_of_pytest(
    recorder: Recorder, tests: Path, tmp_path: Path
) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'was_here')!r}, 'w')\n", encoding="utf-8")
    passing(recorder)
    log = recorder.begin("x")
    log.nodeid = f"{evil}::test_x"
    recorder.end(log)
    log = recorder.begin("y")
    log.nodeid = "-p evil"
    recorder.end(log)
    result = replay(recorder.finish(), tests)
    assert result.json["counts"] == {"same": 1, "changed": 0, "not judged": 2}
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize("made", ["nothing", "empty", "file"])
def test_what_is_no_run_is_said_so(tmp_path: Path, made: str) -> None:
    path = tmp_path / "thing"
    if made == "empty":
        path.mkdir()
    elif made == "file":
        path.write_text("words", encoding="utf-8")
    result = hil("replay", str(path))
    assert result.code == (3 if made == "file" else 2), result.err
    assert "thing" in result.err
    assert "remedy:" in result.err
    assert "Traceback" not in result.err
