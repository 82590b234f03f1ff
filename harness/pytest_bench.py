"""What a pytest run with ``--hil-board`` is given: its bench, its record, its hooks.

Loaded by :mod:`harness.pytest_plugin` only when a board is named, so that a project that merely
has this package installed pays nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from harness import firmware_ahead, process
from harness.arduino.core_home import STANDIN_TEXT
from harness.bench.inventory import load_inventory
from harness.boards.board import Board, Lane, find_board
from harness.desk.desk import Desk
from harness.errors import HilError, UsageError
from harness.library.checkout import require_checkout
from harness.library.provenance import to_json
from harness.library.resolve import Library, exporter_mismatch
from harness.machine.config import load_config
from harness.pipeline import Bench, Request
from harness.report import allure_results, junit_results
from harness.report.pytest_verdicts import VerdictHooks
from harness.report.run_record import RunRecord, claim, default_folder
from harness.report.text import printable
from harness.report.verdict import EXIT_FAULT
from harness.storage.prune import prune_daily, what_went


def set_up(config: pytest.Config) -> tuple[RunRecord, Bench]:
    """The run's record and bench, with the hooks that judge it registered.

    A wrong option ends the run with one sentence: as a usage error of pytest's, or with the exit
    code of a fault where it is not the caller's.
    """
    try:
        record, bench = _make(config)
    except UsageError as error:
        raise pytest.UsageError(_told(error)) from error
    except HilError as error:
        pytest.exit(_told(error), returncode=EXIT_FAULT)
    hooks = VerdictHooks(config, record, bench.desk)
    config.pluginmanager.register(hooks, "hil-verdicts")
    config.pluginmanager.register(junit_results, junit_results.PLUGIN)
    return record, bench


def _told(error: HilError) -> str:
    return f"{printable(error.message, limit=1000)}\n  remedy: {error.remedy}"


def _make(config: pytest.Config) -> tuple[RunRecord, Bench]:
    option = config.getoption
    board = find_board(option("--hil-board"))
    core = board.core_version(option("--hil-core-version"))
    named = option("--hil-executorch")
    executorch = load_config(executorch=Path(named) if named else None).executorch
    library = option("--hil-library")
    _require_inputs(executorch, Path(library) if library else None)
    out = option("--hil-out")
    folder = (Path(out) if out else default_folder(board.name)).absolute()
    record = RunRecord(
        board=board.name,
        lane=board.lane.value,
        core_version=core.version,
        command=tuple(sys.argv),
        folder=folder,
    )
    request = Request(
        board=board,
        core_version=core,
        executorch=executorch,
        library=Path(library) if library else None,
        root_ops=option("--hil-root-ops"),
        all_ops=option("--hil-all-ops"),
        port=option("--hil-port"),
        serial_number=option("--hil-serial"),
        virtual=_virtual(board, asked=option("--hil-virtual")),
        behave=_behaviour(option("--hil-behave"), virtual=option("--hil-virtual")),
    )
    record.stand_in = STANDIN_TEXT if request.virtual else None
    inventory = load_inventory(Path(option("--hil-bench")) if option("--hil-bench") else None)
    claim(folder)
    progress = progress_of(config)
    bench = Bench(
        request,
        Desk(folder / "serial", progress, inventory),
        progress,
        step=allure_results.step_maker(config),
        made=record.made,
        when_linked=_build_ahead,
        plugs_in_ahead=True,
    )
    bench.desk.on_close(lambda: _prune(progress))
    return record, bench


def _prune(progress: Callable[[str], None]) -> None:
    days = load_config().keep_unused_days
    if gone := prune_daily(days, progress=progress):
        progress(
            f"removed from the cache: {what_went(gone)} unused for {days} days"
            " ('hil cache' shows what is left)"
        )


def _build_ahead(bench: Bench) -> None:
    child = firmware_ahead.begin(bench.request, bench.models_ahead)
    if child is not None:
        bench.desk.on_close(lambda: process.end(child))


def _virtual(board: Board, *, asked: bool) -> bool:
    """Whether a stand-in is plugged in; a board that is virtual anyway has none."""
    if asked and (board.lane is not Lane.HARDWARE or board.emulation is None):
        raise UsageError(
            f"board {board.name!r} has no stand-in",
            remedy="leave out --virtual: it is for hardware boards with [emulation] in their file",
        )
    return asked


def _behaviour(named: str | None, *, virtual: bool) -> Path | None:
    if named is None:
        return None
    if not virtual:
        raise UsageError(
            f"{named!r} says how a stand-in misbehaves, and none is asked for",
            remedy="give --virtual (in pytest --hil-virtual) as well",
        )
    if not Path(named).is_file():
        raise UsageError(
            f"there is no behaviour file {named!r}", remedy="see docs/uno-q-standin.md for its keys"
        )
    return Path(named).absolute()


def _require_inputs(executorch: Path | None, library: Path | None) -> None:
    """A path that cannot be what it is said to be ends the run before anything is done."""
    if library is not None:
        if not library.exists():
            raise UsageError(
                f"there is no library at {str(library)!r}",
                remedy="give --library the folder or zip of a built ExecuTorch Arduino library",
            )
    elif executorch is not None:
        require_checkout(executorch)


def progress_of(config: pytest.Config) -> Callable[[str], None]:
    """A line on the terminal at once, whatever pytest captures meanwhile."""

    def say(line: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        if reporter is None:
            return
        with nullcontext() if capture is None else capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"  ... {printable(line, limit=1000)}")
            reporter.flush()

    return say


def record_library(bench: Bench, record: RunRecord) -> Library:
    """The library under test, with its provenance in the record and a mismatch said once."""
    made = bench.library()
    record.provenance["library"] = to_json(made.provenance)
    mismatch = exporter_mismatch(made, made.provenance.exporter)
    if mismatch and mismatch not in record.warnings:
        record.warnings.append(mismatch)
    return made
