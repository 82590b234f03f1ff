"""Turns pytest's outcomes into verdicts, and writes the run's report when it ends."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pytest

from harness.clock import wall_iso
from harness.desk.desk import Desk
from harness.errors import HilError
from harness.report import allure_results
from harness.report import text as report
from harness.report.case_folder import write_case, write_log
from harness.report.case_log import CaseLog
from harness.report.run_record import BEGUN, Case, RunRecord, release
from harness.report.verdict import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_NOTHING_RAN,
    EXIT_PASSED,
    EXIT_USAGE,
    Diagnosis,
    Kind,
    Verdict,
    exit_code,
    verdict_of,
)

VERDICT = "hil_verdict"
"""Name of the property with the verdict, in JUnit's results as well."""

RETRY = "hil_retry"
"""Name of the property with one thing that was done again because of a fault."""

TIMED_OUT = "from pytest-timeout"

SHOWN_LINES = 60
"""Most lines of a test's conversation that the terminal shows; its serial.log has all."""

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def subject_of(item: pytest.Item) -> str | None:
    """What a case is about: its mark, its model, its example, or its sketch."""
    mark = item.get_closest_marker("hil_subject")
    if mark is not None and mark.args:
        return str(mark.args[0])
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    for name in ("model", "model_name", "example", "own_sketch"):
        if name in parameters:
            return str(parameters[name])
    sketch = item.get_closest_marker("hil_sketch")
    if sketch is not None and sketch.args:
        return str(sketch.args[0]).rstrip("/").rpartition("/")[2]
    return None


@dataclass
class _Current:
    """The test that runs now; ``since_s`` marks its beginning in the transcript."""

    nodeid: str
    since_s: float
    verdict: Verdict | None = None


class VerdictHooks:
    """Registered only in a run with a board."""

    def __init__(self, config: pytest.Config, record: RunRecord, desk: Desk) -> None:
        self._config = config
        self._record = record
        self._desk = desk
        self._current: _Current | None = None
        self._session: pytest.Session | None = None
        self._told_retries = self._told_remarks = 0

    def pytest_sessionstart(self) -> None:
        """Say on disk what runs here, before anything is done for it."""
        try:
            self._record.begin()
            allure_results.describe_run(self._config, self.about())
        except OSError as error:
            self._record.warn(f"{BEGUN} could not be written: {error.strerror}")

    def about(self) -> dict[str, str]:
        """What the run is of, for reports of other makes; a stand-in above all."""
        record = self._record
        about = {"board": record.board, "lane": record.lane, "core_version": record.core_version}
        return about | ({"stand_in": record.stand_in} if record.stand_in is not None else {})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Remember where in the transcript this case begins."""
        station = self._desk.current
        log = CaseLog(item.nodeid, subject_of(item))
        since_s = 0.0
        if station is not None:
            since_s = station.session.transcript.elapsed_s
            log.from_entry = station.session.transcript.entries
            log.running = station.running.key if station.running is not None else None
            station.session.mark("case", nodeid=item.nodeid)
        self._current = _Current(item.nodeid, since_s)
        self._record.current = self._record.logs[item.nodeid] = log
        self._write(item.nodeid, lambda: write_log(self._record.folder, log, None))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give the case its verdict and show its diagnosis instead of a traceback."""
        made = yield
        self._note_what_was_odd(item, made)
        verdict = self._verdict(made, call)
        if verdict is not None:
            self._settle(item, made, call, verdict)
        if made.when == "teardown":
            self._close_case()
        return made

    def _note_what_was_odd(self, item: pytest.Item, made: pytest.TestReport) -> None:
        """Count the board's retries and remarks since the last look to the test that ran."""
        station = self._desk.current
        if station is None:
            return
        retries = station.retries[self._told_retries :]
        remarks = station.remarks[self._told_remarks :]
        self._told_retries, self._told_remarks = len(station.retries), len(station.remarks)
        self._record.odd(item.nodeid, retries, remarks)
        for properties in (item.user_properties, made.user_properties):
            properties += [(RETRY, each) for each in retries]

    def _settle(
        self,
        item: pytest.Item,
        made: pytest.TestReport,
        call: pytest.CallInfo[Any],
        verdict: Verdict,
    ) -> None:
        self._record.add(Case(item.nodeid, subject_of(item), verdict, made.duration))
        kind = self._record.kind_of(item.nodeid) or verdict.kind
        # JUnit takes the properties of the last phase's report, which copies the item's.
        for properties in (item.user_properties, made.user_properties):
            properties[:] = [each for each in properties if each[0] != VERDICT]
            properties.append((VERDICT, kind.value))
        if verdict.kind is Kind.PASSED or verdict.diagnosis is None:
            return
        if self._current is not None:
            self._current.verdict = verdict
        text = report.diagnosis_text(verdict.kind.value, verdict.diagnosis)
        error = call.excinfo.value if call.excinfo is not None else None
        if hasattr(made, "wasxfail"):
            return
        if verdict.kind is Kind.SKIPPED:
            made.outcome = "skipped"
            path, line, _ = item.reportinfo()
            symptom, remedy = verdict.diagnosis.symptom, verdict.diagnosis.remedy
            reason = symptom if symptom == remedy else f"{symptom}: {remedy}"
            shown = f"Skipped: {report.printable(reason, limit=1000)}"
            made.longrepr = (str(path), (line or 0) + 1, shown)
            allure_results.tell(self._config, verdict, reason)
            return
        if isinstance(error, HilError) or _timed_out(error):
            made.longrepr = text
        elif (said := made.longreprtext) != report.safe_block(said):
            made.longrepr = report.safe_block(said)
        self._show(made, verdict, text)

    def _verdict(self, made: pytest.TestReport, call: pytest.CallInfo[Any]) -> Verdict | None:
        if made.passed:
            return Verdict(Kind.PASSED) if made.when == "call" else None
        stage = "case" if made.when == "call" else str(made.when)
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, pytest.skip.Exception) or made.skipped:
            # An expected failure is skipped, too, in pytest's words.
            reason = str(getattr(made, "wasxfail", "") or getattr(error, "msg", error))
            return Verdict(Kind.SKIPPED, Diagnosis(stage, reason, reason, reason))
        if _timed_out(error):
            return Verdict(
                Kind.FAULT,
                Diagnosis(
                    stage,
                    f"the test did not end in time: {error}",
                    "a stage hung, or the limit is too short for this machine",
                    "read the transcript's end; raise the limit with --timeout",
                    self._tail(),
                ),
            )
        if isinstance(error, pytest.fail.Exception):
            return verdict_of(AssertionError(str(error.msg)), stage=stage)
        return None if error is None else verdict_of(error, stage=stage)

    def _tail(self) -> tuple[str, ...]:
        station = self._desk.current
        return station.session.transcript.tail() if station is not None else ()

    def _said(self) -> tuple[str, ...]:
        station, current = self._desk.current, self._current
        if station is None or current is None:
            return ()
        return station.session.transcript.shown_since(current.since_s)

    def _show(self, made: pytest.TestReport, verdict: Verdict, text: str) -> None:
        station = self._desk.current
        if station is not None:
            # Whatever state the board is in now, the next case starts from a flash.
            station.running = None
        # What a test captured may quote the device, and goes to the terminal as it is.
        made.sections[:] = [(name, report.safe_block(said)) for name, said in made.sections]
        if made.longrepr is not text:
            made.sections.append(("hil diagnosis", text))
        said = self._said()
        if said:
            made.sections.append(("hil serial", "\n".join(said[-SHOWN_LINES:])))
        allure_results.tell(self._config, verdict, text, "\n".join(said))

    def _close_case(self) -> None:
        """Write the evidence of the current test into its folder."""
        current, said = self._current, self._said()
        log, self._record.current = self._record.current, None
        self._current = None
        if current is None or log is None:
            return
        station = self._desk.current
        if station is not None:
            station.session.mark("case_end", nodeid=current.nodeid)
            log.to_entry = station.session.transcript.entries
            log.serial_number = station.port.serial_number
        log.ended = wall_iso()
        folder = self._record.folder

        def write() -> None:
            write_case(folder, current.nodeid, said=said, verdict=current.verdict)
            write_log(folder, log, self._record.verdict_of(current.nodeid))

        self._write(current.nodeid, write)

    def _write(self, nodeid: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._record.warn(f"the evidence of {nodeid} could not be kept: {error.strerror}")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """A fault is neither a failure nor a pytest error, and is counted apart."""
        # A report of the collection has no properties.
        verdict = dict(getattr(report, "user_properties", ())).get(VERDICT)
        if report.failed and verdict == Kind.FAULT.value:
            return "fault", "!", "FAULT"
        retried = any(name == RETRY for name, _ in getattr(report, "user_properties", ()))
        if retried and report.passed and report.when == "call" and verdict == Kind.PASSED.value:
            return "passed after a retry", "R", "PASSED AFTER A RETRY"
        return None

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Say so in the record: what is missing was not run."""
        if excinfo.type is KeyboardInterrupt:
            self._record.interrupted = True
            self._record.interrupted_in = self._current.nodeid if self._current else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> bool | None:
        """A full disk is a fault said in one sentence, not a defect with a traceback."""
        error = excinfo.value
        if not isinstance(error, OSError) or error.errno not in _DISK:
            return None
        self._record.warn(f"the run was cut off: its evidence cannot be written: {error.strerror}")
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Keep the evidence of a test that was cut off, free the board, set the exit code."""
        self._session = session
        release(self._record.folder)
        self._close_case()
        broken = False
        result = None
        try:
            result = yield
        except OSError as error:
            if error.errno not in _DISK:
                raise
            broken = True
            self._record.warn(f"the run's results cannot be written: {error.strerror}")
        finally:
            try:
                self._desk.close()
            except HilError as error:
                broken = True
                self._record.warn(f"the board could not be given back: {error.message}")
        code = self._exit_code(session.exitstatus)
        session.exitstatus = EXIT_FAULT if broken and code == EXIT_PASSED else code
        return result

    def _exit_code(self, status: int | pytest.ExitCode) -> int:
        if self._config.getoption("collectonly", False):
            return int(status)
        match status:
            case pytest.ExitCode.OK | pytest.ExitCode.TESTS_FAILED:
                # A test file that cannot be read has no verdict and is no success.
                whole = exit_code(self._record.kinds)
                failed = status is pytest.ExitCode.TESTS_FAILED
                return EXIT_FAULT if failed and whole in (EXIT_PASSED, EXIT_NOTHING_RAN) else whole
            case pytest.ExitCode.INTERRUPTED:
                return EXIT_INTERRUPTED if self._record.interrupted else EXIT_FAULT
            case pytest.ExitCode.NO_TESTS_COLLECTED:
                return EXIT_NOTHING_RAN
            case pytest.ExitCode.USAGE_ERROR:
                return EXIT_USAGE
        return EXIT_FAULT

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Faults with their remedies, warnings, and the table of what was measured."""
        shown = terminalreporter
        if self._record.interrupted:
            where = self._record.interrupted_in or "between two tests"
            shown.write_line(f"interrupted: {where}; it and what comes after it has no verdict")
        faults = shown.getreports("fault")
        if faults:
            shown.write_sep("=", "FAULTS (the bench, not the device)")
            for each in faults:
                shown.write_sep("_", each.nodeid)
                shown.write_line(str(each.longrepr))
        if not self._record.cases and not self._record.interrupted:
            shown.write_line("nothing ran: no case was selected")
        skipped = [
            case.verdict.diagnosis
            for case in self._record.cases
            if case.verdict.kind is Kind.SKIPPED and case.verdict.diagnosis is not None
        ]
        for line in report.skipped_text(skipped):
            shown.write_line(line)
        if self._record.stand_in is not None:
            shown.write_line(self._record.stand_in)
        for warning in self._record.warnings:
            shown.write_line(f"warning: {report.printable(warning, limit=1000)}")
        if self._record.measurements and not self._config.getoption("--hil-brief"):
            shown.write_sep("=", f"{self._record.board}: what was measured")
            shown.write_line(report.table([self._record.as_json({})], colour=shown.hasmarkup))

    def pytest_unconfigure(self) -> None:
        """The manifest comes last: after JUnit and Allure have written theirs."""
        release(self._record.folder)
        try:
            target = self._record.write()
        except HilError as error:
            print(f"hil: {report.printable(error.message, limit=1000)}", file=sys.stderr)
            print(f"  remedy: {error.remedy}", file=sys.stderr)
            if self._session is not None and self._session.exitstatus == EXIT_PASSED:
                self._session.exitstatus = EXIT_FAULT
            return
        print(f"evidence: {target.parent}")


def _timed_out(error: BaseException | None) -> bool:
    return isinstance(error, pytest.fail.Exception) and TIMED_OUT in str(error.msg)
