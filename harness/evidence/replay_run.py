"""Runs the suite's own cases over a recorded run: same cases, same judges, no board.

Nothing of the folder reaches pytest's command line: the suite is collected as ever, and what the
run did not run is deselected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.errors import BenchError
from harness.evidence.comparison import Comparison, judge, measured_otherwise, why_not
from harness.evidence.plain import Damaged
from harness.evidence.player import CannotReplay
from harness.evidence.replay_bench import ReplayBench, open_bench
from harness.evidence.run_folder import RecordedCase, RunFolder
from harness.paths import suite_dir
from harness.pytest_plugin import BENCH, RECORD
from harness.report.pytest_verdicts import VerdictHooks
from harness.report.run_record import RunRecord
from harness.report.verdict import Kind, Verdict

_IN_ORDER = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
_QUIET = ("no:terminal", "no:cacheprovider", "no:junitxml", "no:logging", "no:allure_pytest")


def replay(run: RunFolder, *, tests: Path | None = None) -> Comparison:
    """Judge every case of ``run`` that can be; ``tests`` is where its cases are, ours by default.

    Raises :class:`UsageError` where this bench does not know the board, :class:`Damaged` where a
    recorded file is found not to be what it must be, :class:`BenchError` when pytest itself fails.
    """
    bench = open_bench(run, lambda line: None)  # noqa: ARG005
    wanted = [case for case in run.cases if why_not(case) is None]
    with TemporaryDirectory(prefix="hil-replay") as scratch:
        record = RunRecord(
            board=bench.board.name,
            lane=bench.board.lane.value,
            core_version=bench.request.core_version.version,
            command=("hil", "replay"),
            folder=Path(scratch),
        )
        judging = _Judging(run, bench, record, wanted)
        if wanted:
            _run_pytest(judging, tests or suite_dir())
    cases = [
        judge(case, judging.verdicts.get(case.nodeid), why_not(case) or judging.why(case.nodeid))
        for case in run.cases
    ]
    for nodeid, verdict in run.without_log:
        old = RecordedCase(nodeid, None, verdict, "", "", "", "", 0, None, None, None, ())
        cases.append(judge(old, None, "it left no case.json to judge it by"))
    figures = measured_otherwise(run.record, record.measurements.values())
    return Comparison(run, tuple(cases), tuple(figures), run.remarks)


def _run_pytest(judging: _Judging, tests: Path) -> None:
    root = suite_dir().parent.parent if tests == suite_dir() else _root_of(tests)
    arguments = [
        str(tests),
        f"--rootdir={root}",
        # A project's own options may name a board, and would then open it.
        "-o",
        "addopts=",
        *(word for name in _QUIET for word in ("-p", name)),
    ]
    with _without_options():
        pytest.main(arguments, plugins=[judging])
    if judging.ended not in _IN_ORDER:
        raise BenchError(
            f"the cases in {str(tests)!r} cannot be run again: pytest did not come to its end",
            remedy="see that 'pytest --collect-only' works there",
            evidence=tuple(judging.problems),
        )


def _root_of(tests: Path) -> Path:
    return tests if tests.is_dir() else tests.parent


@contextmanager
def _without_options() -> Iterator[None]:
    kept = os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ["PYTEST_ADDOPTS"] = kept


class _ReplayVerdicts(VerdictHooks):
    """The verdicts of a run, without its files and its words on the terminal."""

    def pytest_unconfigure(self) -> None:
        """Nothing is kept."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Nothing is shown."""


class _Judging:
    """The plugin that puts a replaying bench where a run's bench would be."""

    def __init__(
        self,
        run: RunFolder,
        bench: ReplayBench,
        record: RunRecord,
        wanted: Sequence[RecordedCase],
    ) -> None:
        self._run = run
        self._bench = bench
        self._record = record
        self._wanted = {case.nodeid: case for case in wanted}
        self._order = {case.nodeid: place for place, case in enumerate(wanted)}
        self._here: dict[str, str] = {}
        self._cannot: dict[str, str] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.problems: list[str] = []
        self.ended: int | None = None

    def why(self, nodeid: str) -> str | None:
        """Why a case that ran could not be judged."""
        return self._cannot.get(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Take the place of :func:`harness.pytest_bench.set_up`."""
        config.stash[RECORD], config.stash[BENCH] = self._record, self._bench
        hooks = _ReplayVerdicts(config, self._record, self._bench.desk)
        config.pluginmanager.register(hooks, "hil-verdicts")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Told pytest's own code, before the verdicts give it another meaning."""
        self.ended = exitstatus

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember why a file could not be read."""
        if report.failed:
            self.problems += str(report.longrepr).splitlines()[-3:]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep what the run ran, in the order in which it did."""
        found = {item: self._recorded(item.nodeid) for item in items}
        config.hook.pytest_deselected(items=[each for each in items if found[each] is None])
        kept = [each for each in items if found[each] is not None]
        kept.sort(key=lambda each: self._order[found[each] or ""])
        self._here = {each.nodeid: found[each] or "" for each in kept}
        items[:] = kept

    def _recorded(self, nodeid: str) -> str | None:
        """The run's name of a case: the same, or with the folders above its file left out."""
        if nodeid in self._wanted:
            return nodeid
        same = [name for name in self._wanted if _short(name) == _short(nodeid)]
        return same[0] if len(same) == 1 else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Play this case's part of the recording to it."""
        name = self._here[item.nodeid]
        problem: str | None = None
        try:
            self._bench.begin(self._wanted[name])
        except Damaged as error:
            problem = error.message
        result = yield
        verdict = self._record.verdict_of(item.nodeid)
        if verdict is not None:
            self.verdicts[name] = verdict
        player = self._bench.player
        cannot = problem or player.cannot
        if player.ran_out and self._wanted[name].verdict == Kind.PASSED.value:
            # It passed on these very bytes, and they no longer satisfy it: that is a change.
            return result
        diagnosis = verdict.diagnosis if verdict is not None else None
        if cannot is None and diagnosis is not None and diagnosis.stage == CannotReplay.stage:
            cannot = diagnosis.symptom
        if cannot is not None:
            self._cannot[name] = cannot
        return result


def _short(nodeid: str) -> str:
    path, separator, rest = nodeid.partition("::")
    return path.rpartition("/")[2] + separator + rest
