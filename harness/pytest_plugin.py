"""The pytest plugin: options, fixtures layered by the state the board is in, and verdicts.

It does nothing to a test run that gives no ``--hil-board``; fixtures then say what is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from harness import __doc__ as purpose
from harness.arduino.build import Firmware
from harness.arduino.sketch import Sketch, read_sketch
from harness.boards.board import Board, find_board
from harness.clock import wall_iso
from harness.desk import Desk
from harness.errors import UsageError
from harness.library.provenance import to_json
from harness.library.resolve import Library, exporter_mismatch
from harness.machine.config import load_config
from harness.model.export import MODEL_NAMES, ModelArtifact
from harness.pipeline import Bench, Request
from harness.report.pytest_verdicts import BENCH, RECORD, VerdictHooks, subject_of
from harness.report.run_record import Measurement, RunRecord
from harness.runner.client import Runner
from harness.runner.inference import greet
from harness.serial.session import Session

DEFAULT_TIMEOUT_S = 1200
"""Bound on one test, its fixtures included; the first test of a run may compile the library."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options carry a prefix, since other plugins own --port and --baud."""
    group = parser.getgroup("hil", (purpose or "").strip())
    group.addoption("--hil-board", metavar="NAME", help="board to run on ('hil boards' lists them)")
    group.addoption("--hil-port", metavar="PORT", help="port of the board, if several match")
    group.addoption("--hil-serial", metavar="SN", help="serial number of the board")
    group.addoption("--hil-core-version", metavar="V", help="version of the board's core")
    group.addoption("--hil-executorch", metavar="DIR", help="ExecuTorch checkout to test")
    group.addoption("--hil-library", metavar="DIR|ZIP", help="an already built Arduino library")
    group.addoption("--hil-root-ops", metavar="OPS", help="op set, passed on as ROOT_OPS=")
    group.addoption("--hil-all-ops", action="store_true", help="every portable op (ALL_OPS=1)")
    group.addoption("--hil-out", metavar="DIR", help="folder of the run's evidence")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the bench when a board is named; a wrong option ends the run with one sentence."""
    config.addinivalue_line(
        "markers", "hil_sketch(folder): the sketch that the firmware fixture builds"
    )
    config.addinivalue_line("markers", "hil_subject(name): what the case is about, for the report")
    if config.getoption("--hil-board") is None:
        return
    try:
        record, bench = _bench(config)
    except UsageError as error:
        raise pytest.UsageError(f"{error.message}\n  remedy: {error.remedy}") from error
    config.stash[RECORD] = record
    config.stash[BENCH] = bench
    config.pluginmanager.register(VerdictHooks(config), "hil-verdicts")


def _bench(config: pytest.Config) -> tuple[RunRecord, Bench]:
    option = config.getoption
    board = find_board(option("--hil-board"))
    core = board.core_version(option("--hil-core-version"))
    out = option("--hil-out")
    stamp = wall_iso().replace(":", "").replace("-", "")[:15]
    folder = Path(out) if out else Path("hil-out") / f"{stamp}-{board.name}"
    record = RunRecord(
        board=board.name,
        lane=board.lane.value,
        core_version=core.version,
        command=tuple(sys.argv),
        folder=folder,
    )
    library = option("--hil-library")
    request = Request(
        board=board,
        core_version=core,
        executorch=_executorch(option("--hil-executorch")),
        library=Path(library) if library else None,
        root_ops=option("--hil-root-ops"),
        all_ops=option("--hil-all-ops"),
        port=option("--hil-port"),
        serial_number=option("--hil-serial"),
    )
    return record, Bench(request, Desk(folder / "serial"), _progress(config))


def _executorch(named: str | None) -> Path | None:
    return load_config(executorch=Path(named) if named else None).executorch


def _progress(config: pytest.Config) -> Callable[[str], None]:
    def say(line: str) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        if reporter is None:
            return
        if capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(f"  ... {line}")
        else:
            reporter.write_line(f"  ... {line}")

    return say


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``model`` runs once for each model, unless it parametrizes it itself."""
    marked = {
        name.strip()
        for mark in metafunc.definition.iter_markers("parametrize")
        for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    }
    if "model" in metafunc.fixturenames and "model" not in marked:
        metafunc.parametrize("model", MODEL_NAMES, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bound every test that uses the board, where neither it nor the command line says how."""
    if config.stash.get(BENCH, None) is None or config.getoption("timeout", None):
        return
    for item in items:
        if "bench" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(DEFAULT_TIMEOUT_S))


@pytest.fixture(scope="session")
def bench(pytestconfig: pytest.Config) -> Iterator[Bench]:
    """The bench of this run: nothing is built or plugged in yet; the board is free afterwards."""
    made = pytestconfig.stash.get(BENCH, None)
    if made is None:
        raise UsageError(
            "this test needs a board and none was named",
            remedy="give --hil-board NAME; 'hil boards' lists them",
        )
    yield made
    made.desk.close()


@pytest.fixture(scope="session")
def board(bench: Bench) -> Board:
    """The board's data: nothing has been done to a board yet."""
    return bench.board


@pytest.fixture(scope="session")
def library(bench: Bench, pytestconfig: pytest.Config) -> Library:
    """The library under test, as sources: nothing is compiled yet."""
    made = bench.library()
    record = pytestconfig.stash[RECORD]
    record.provenance["library"] = to_json(made.provenance)
    mismatch = exporter_mismatch(made, made.provenance.exporter)
    if mismatch and mismatch not in record.warnings:
        record.warnings.append(mismatch)
        bench.progress(f"warning: {mismatch}")
    return made


@pytest.fixture(scope="session")
def model(request: pytest.FixtureRequest, bench: Bench, library: Library) -> ModelArtifact:
    """One model, exported for the board's core: nothing is compiled yet."""
    del library  # asked for first, so that a mismatch is said before the export
    bench.export_all(selected_models(request.session.items))
    artifact = bench.model(request.param)
    models = request.config.stash[RECORD].provenance.setdefault("models", {})
    if isinstance(models, dict):
        models[artifact.name] = {"digest": artifact.digest, **artifact.provenance}
    return artifact


def selected_models(items: Sequence[pytest.Item]) -> tuple[str, ...]:
    """Names of the models that this run's tests use, in order and once each."""
    parameters = [getattr(getattr(item, "callspec", None), "params", {}) for item in items]
    return tuple(dict.fromkeys(str(each["model"]) for each in parameters if "model" in each))


@pytest.fixture
def measurement(
    request: pytest.FixtureRequest, bench: Bench, pytestconfig: pytest.Config
) -> Measurement:
    """The report's row of this test's subject, to be filled in."""
    del bench  # without one there is no record
    return pytestconfig.stash[RECORD].measure(subject_of(request.node) or request.node.name)


@pytest.fixture
def sketch(request: pytest.FixtureRequest) -> Sketch:
    """The sketch that the test's ``hil_sketch`` mark names, read and not compiled."""
    mark = request.node.get_closest_marker("hil_sketch")
    if mark is None or not mark.args:
        raise UsageError(
            "the dut fixture does not know which sketch to run",
            remedy='mark the test with @pytest.mark.hil_sketch("folder"), or define a fixture'
            " called firmware",
        )
    folder = Path(mark.args[0])
    return read_sketch(folder if folder.is_absolute() else request.path.parent / folder)


@pytest.fixture
def firmware(bench: Bench, sketch: Sketch) -> Firmware:
    """The test's sketch, compiled: the board still runs whatever it ran before."""
    uses_library = any(
        b"ExecuTorch.h" in each or b"ETModel.h" in each for each in sketch.files.values()
    )
    return bench.firmware(sketch, with_library=uses_library)


@pytest.fixture
def dut(bench: Bench, firmware: Firmware) -> Session:
    """A freshly flashed board that has just started, with its port open since before the upload."""
    return bench.boot(firmware)


@pytest.fixture
def runner(bench: Bench, model: ModelArtifact) -> Runner:
    """A board that runs the runner sketch with ``model`` and said so; flashed only if needed."""
    firmware = bench.runner(model)
    station = bench.station()
    if station.running is None or station.running.key != firmware.key:
        bench.boot(firmware)
    return greet(station.session, firmware.nonce, model)
