"""Exports begun in the background: what is asked for, and what becomes of the child's own end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import process
from harness.errors import ToolError
from harness.model import ahead
from harness.model import export as model
from harness.model.export import PORTABLE, ExportTarget

M33 = ExportTarget("cortex-m", "m33")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    argvs: list[tuple[str, ...]] = []

    def spawn(argv: tuple[str, ...], **_: object) -> object:
        argvs.append(argv)
        return object()

    monkeypatch.setattr(process, "spawn", spawn)
    return argvs


def test_what_is_missing_is_asked_for(started: list[tuple[str, ...]]) -> None:
    child = ahead.begin([("add", M33), ("ds_cnn", M33)], checkout=None)
    assert child is not None
    ((python, *module, request),) = started
    assert python == sys.executable
    assert module == ["-m", "harness.model.ahead"]
    assert json.loads(request) == {
        "checkout": None,
        "exports": [["add", "cortex-m", "m33"], ["ds_cnn", "cortex-m", "m33"]],
    }


def test_nothing_is_started_where_all_is_there(started: list[tuple[str, ...]]) -> None:
    wanted = [("ds_cnn", M33)]
    model._Wanted.of("ds_cnn", M33, None).place.mkdir(parents=True)
    assert ahead.begin(wanted, checkout=None) is None
    assert ahead.begin([], checkout=None) is None
    assert not started


def test_what_cannot_be_asked_for_is_left_to_the_run(started: list[tuple[str, ...]]) -> None:
    assert ahead.begin([("no such model", M33)], checkout=None) is None
    assert not started


REQUEST = json.dumps({"checkout": "/c", "exports": [["add", "portable", None]]})


def exporting(monkeypatch: pytest.MonkeyPatch, act: Callable[[Callable[[str], None]], None]) -> Any:
    calls: list[object] = []

    def export_models(
        wanted: Sequence[object], *, checkout: Path, progress: Callable[[str], None]
    ) -> None:
        calls.append((list(wanted), checkout))
        act(progress)

    monkeypatch.setattr(ahead, "export_models", export_models)
    return calls


def test_the_child_exports_what_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = exporting(monkeypatch, lambda progress: progress("add: lowering"))
    assert ahead.main(REQUEST) == 0
    assert calls == [([("add", PORTABLE)], Path("/c"))]


def test_a_failure_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ToolError("it broke", remedy="mend it")

    exporting(monkeypatch, fail)
    assert ahead.main(REQUEST) == 1


def test_the_child_stops_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter((100, 1))
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    exporting(monkeypatch, lambda progress: progress("add: lowering"))
    with pytest.raises(SystemExit):
        ahead.main(REQUEST)


def test_a_worker_that_was_started_nice_is_nice_with_its_whole_session() -> None:
    """Linux shares the processor between sessions first; a nice value alone counts for nothing."""
    code = (
        "import os, sys\n"
        "from harness.model import worker\n"
        "os.nice(int(sys.argv[1]))\n"
        "worker.be_as_nice_as_the_starter()\n"
        "print(worker.AUTOGROUP.read_text() if worker.AUTOGROUP.exists() else 'nice 0')\n"
    )
    for nice in (0, ahead.POLITE):
        done = process.run((sys.executable, "-c", code, str(nice)), timeout_s=30)
        assert done.ok, done.stderr
        shared = Path("/proc/self/autogroup").exists()
        assert done.stdout.split()[-1] == str(nice if shared else 0)
