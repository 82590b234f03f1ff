"""Turns pytest's outcomes into verdicts, and writes the run's report when it ends."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import HilError
from harness.report import text as report
from harness.report.run_record import Case, RunRecord
from harness.report.verdict import Diagnosis, Kind, Verdict, exit_code, verdict_of

if TYPE_CHECKING:
    from harness.pipeline import Bench

RECORD: pytest.StashKey[RunRecord] = pytest.StashKey()
BENCH: pytest.StashKey[Bench] = pytest.StashKey()
_OFFSET: pytest.StashKey[int] = pytest.StashKey()


def subject_of(item: pytest.Item) -> str | None:
    """What a case is about: its mark, its model, its example, or its sketch."""
    mark = item.get_closest_marker("hil_subject")
    if mark is not None and mark.args:
        return str(mark.args[0])
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    for name in ("model", "example", "own_sketch"):
        if name in parameters:
            return str(parameters[name])
    sketch = item.get_closest_marker("hil_sketch")
    if sketch is not None and sketch.args:
        return str(sketch.args[0]).rstrip("/").rpartition("/")[2]
    return None


class VerdictHooks:
    """Registered only in a run with a board."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._record = config.stash[RECORD]
        self._bench = config.stash[BENCH]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the case its verdict and show its diagnosis instead of a traceback."""
        made = yield
        verdict = self._verdict(made, call)
        if verdict is None:
            return made
        made.user_properties.append(("hil_verdict", verdict.kind.value))
        self._record.add(Case(item.nodeid, subject_of(item), verdict, made.duration))
        if verdict.kind is Kind.PASSED or verdict.diagnosis is None:
            return made
        text = report.diagnosis_text(verdict.kind.value, verdict.diagnosis)
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, HilError):
            made.longrepr = text
            if verdict.kind is Kind.SKIPPED:
                made.outcome = "skipped"
                path, line, _ = item.reportinfo()
                reason = f"{verdict.diagnosis.symptom}: {verdict.diagnosis.remedy}"
                made.longrepr = (str(path), line or 0, f"Skipped: {reason}")
        self._keep_evidence(item, made, text)
        return made

    def _verdict(self, made: pytest.TestReport, call: pytest.CallInfo[Any]) -> Verdict | None:
        if made.passed:
            return Verdict(Kind.PASSED) if made.when == "call" else None
        stage = "case" if made.when == "call" else str(made.when)
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, pytest.skip.Exception):
            reason = str(error.msg)
            return Verdict(Kind.SKIPPED, Diagnosis(stage, reason, reason, "see the reason"))
        if isinstance(error, pytest.fail.Exception) and "Timeout" in str(error.msg):
            return Verdict(
                Kind.FAULT,
                Diagnosis(
                    stage,
                    f"the test did not end in time: {error.msg}",
                    "a stage hung, or the limit is too short for this machine",
                    "read the transcript's end; raise the limit with --timeout",
                    self._tail(),
                ),
            )
        if isinstance(error, pytest.fail.Exception):
            return verdict_of(AssertionError(str(error.msg)), stage=stage)
        return None if error is None else verdict_of(error, stage=stage)

    def _tail(self) -> tuple[str, ...]:
        station = self._bench.desk.current
        return station.session.transcript.tail() if station is not None else ()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Remember where in the transcript this case begins."""
        station = self._bench.desk.current
        item.stash[_OFFSET] = station.session.transcript.rx_length if station is not None else 0

    def _keep_evidence(self, item: pytest.Item, made: pytest.TestReport, text: str) -> None:
        station = self._bench.desk.current
        if station is not None and made.failed:
            # Whatever state the board is in now, the next case starts from a flash.
            station.running = None
        since = item.stash.get(_OFFSET, 0)
        said = station.session.transcript.received(since) if station is not None else b""
        made.sections.append(("hil diagnosis", text))
        if said:
            made.sections.append(("hil serial", said[-8000:].decode("utf-8", "backslashreplace")))
        if self._config.getoption("allure_report_dir", None):
            import allure

            allure.attach(text, "diagnosis", allure.attachment_type.TEXT)
            allure.attach(said, "serial output", "application/octet-stream", "bin")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """A fault is neither a failure nor a pytest error, and is counted apart."""
        verdicts = dict(each for each in report.user_properties if each[0] == "hil_verdict")
        if report.failed and verdicts.get("hil_verdict") == Kind.FAULT.value:
            return "fault", "!", "FAULT"
        return None

    def pytest_keyboard_interrupt(self) -> None:
        """Say so in the record: what is missing was not run."""
        self._record.interrupted = True

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Free the board, then let the exit code tell failed from fault."""
        try:
            result = yield
        finally:
            self._bench.desk.close()
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = exit_code(self._record.kinds)
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Faults with their remedies, warnings, and the table of what was measured."""
        shown = terminalreporter
        faults = shown.getreports("fault")
        if faults:
            shown.write_sep("=", "FAULTS (the bench, not the device)")
            for each in faults:
                shown.write_sep("_", each.nodeid)
                shown.write_line(str(each.longrepr))
        for warning in self._record.warnings:
            shown.write_line(f"warning: {warning}")
        if self._record.measurements:
            shown.write_sep("=", f"{self._record.board}: what was measured")
            data = self._record._json({})
            shown.write_line(report.table([data], colour=shown.hasmarkup))

    def pytest_unconfigure(self) -> None:
        """The manifest comes last: after JUnit and Allure have written theirs."""
        target = self._record.write()
        print(f"evidence: {target.parent}")
