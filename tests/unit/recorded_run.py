"""A run's folder made without a board, by the writers that a real run uses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.report.case_folder import write_log
from harness.report.case_log import CaseLog
from harness.report.run_record import Case, RunRecord
from harness.report.verdict import Diagnosis, Kind, Verdict
from harness.serial.transcript import Transcript, open_transcript
from harness.storage.digest import file_digest

KEY = "ab" * 32
PASSED = Verdict(Kind.PASSED)

CASES = '''
"""Cases of somebody's own project."""

import pytest
from harness.report.expectation import require_equal
from harness.report.observation import added_vector


@pytest.fixture
def dut(bench):
    from harness.arduino.sketch import Sketch
    from pathlib import Path

    return bench.boot(bench.firmware(Sketch("adder", Path("adder"), {})))


@pytest.mark.hil_subject("adder")
def test_answers(dut, measurement):
    dut.expect("=== add ===", timeout_s=10)
    dut.write_line("go")
    dut.expect(r"= \\[[^\\]]*\\]\\n", timeout_s=10)
    answer = added_vector(dut.received_since_boot())
    measurement.output = str(answer)
    require_equal("the answer", answer, (2.0, 3.0, 4.0))


def test_waits(dut):
    dut.expect("=== add ===", timeout_s=10)
    dut.expect("never", timeout_s=2)


def test_needs_a_stand_in(bench):
    if not bench.request.virtual:
        pytest.skip("it is a real board")


def test_is_silent(dut):
    dut.expect("a word", timeout_s=2)
'''

FIRMWARE: Mapping[str, object] = {
    "kind": "firmware",
    "sketch": "adder",
    "key": KEY,
    "nonce": KEY[:16],
    "core_version": "0.1.0",
    "footprint": {"flash_bytes": 1, "flash_max_bytes": 2, "ram_bytes": 3, "ram_max_bytes": 4},
    "command": ["arduino-cli", "compile"],
    "library": None,
    "cached": True,
}


@dataclass
class Recorder:
    """Writes one run, case by case; the clock is what a test sets it to."""

    folder: Path
    command: Sequence[str] = ("hil", "test", "m33")
    now_s: float = 0.0
    record: RunRecord = field(init=False)
    transcript: Transcript = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.record = RunRecord("m33", "emulated", "0.1.0", tuple(self.command), self.folder)
        self.record.begin()
        self.transcript = open_transcript(self.folder / "serial")
        self.transcript._clock = lambda: self.now_s
        self.transcript._began_s = 0.0
        self.transcript.mark("opened", {"stream": "/dev/ttyACM0"})

    def rx(self, data: bytes, *, after_s: float = 0.01) -> None:
        self.now_s += after_s
        self.transcript.append("rx", data)

    def tx(self, data: bytes) -> None:
        self.now_s += 0.001
        self.transcript.append("tx", data)

    def begin(self, name: str) -> CaseLog:
        log = CaseLog(f"test_cases.py::{name}", "adder", from_entry=self.transcript.entries)
        log.serial_number = "SN12345678"
        log.started = f"2026-01-01T00:00:{len(self.record.logs):02}.000+00:00"
        self.record.logs[log.nodeid] = log
        self.transcript.mark("case", {"boot": 0, "cursor": 0})
        return log

    def boot(self, log: CaseLog) -> None:
        log.made.append(dict(FIRMWARE))
        at = self.transcript.rx_length
        self.transcript.mark("boot", {"boot": at, "cursor": at, "firmware": KEY})

    def end(self, log: CaseLog, verdict: Verdict = PASSED, *, after_s: float = 0.01) -> None:
        self.now_s += after_s
        self.transcript.mark("case_end", {})
        log.to_entry = self.transcript.entries
        log.ended = log.started
        self.record.add(Case(log.nodeid, log.subject, verdict, 0.1))
        write_log(self.folder, log, verdict)

    def finish(self) -> Path:
        self.transcript.close()
        self.record.write()
        return self.folder


ANSWER = b"[1,2,3] + 1 = [2.00, 3.00, 4.00]\n"


def passing(recorder: Recorder, *, answer: bytes = ANSWER, verdict: Verdict = PASSED) -> None:
    """``test_answers``."""
    log = recorder.begin("test_answers")
    recorder.rx(b"of the firmware before\n")
    recorder.boot(log)
    recorder.rx(b"=== add ===\n")
    recorder.tx(b"go\n")
    recorder.rx(answer)
    recorder.record.measure("adder").output = "(2.0, 3.0, 4.0)"
    recorder.end(log, verdict)


def failing(recorder: Recorder) -> None:
    """``test_waits``, in the words of the error that a session raises."""
    log = recorder.begin("test_waits")
    recorder.boot(log)
    recorder.rx(b"=== add ===\n")
    symptom = "the board on '/dev/ttyACM0' did not print 'never' within 2 s"
    verdict = Verdict(Kind.FAILED, Diagnosis("session", symptom, symptom, "read it"))
    recorder.end(log, verdict, after_s=2.01)


def silent(recorder: Recorder) -> None:
    """``test_is_silent``."""
    log = recorder.begin("test_is_silent")
    recorder.boot(log)
    symptom = (
        "the board on '/dev/ttyACM0' sent nothing since it was flashed or reset: 'a word' was"
        " expected and did not come within 2 s"
    )
    verdict = Verdict(Kind.FAULT, Diagnosis("session", symptom, symptom, "read it"))
    recorder.end(log, verdict, after_s=2.01)


def renew(folder: Path) -> None:
    """Make the manifest fit again, as somebody would who changed the evidence on purpose."""
    path = folder / "run.json"
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    record["files"] = {
        each.relative_to(folder).as_posix(): {
            "bytes": each.stat().st_size,
            "sha256": file_digest(each),
        }
        for each in sorted(folder.rglob("*"))
        if each.is_file() and each.name != "run.json"
    }
    path.write_text(json.dumps(record), encoding="utf-8")


def edit(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes that occur once."""
    data = path.read_bytes()
    assert data.count(old) == 1, (path, data.count(old))
    path.write_bytes(data.replace(old, new))
