"""The pytest plugin: options, fixtures layered by the state the board is in, and verdicts.

It does nothing to a test run that gives no ``--hil-board``; fixtures then say what is missing.
Every project with this package installed loads this module, so it imports nothing but pytest; the
bench itself is imported when a board is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from harness.arduino.build import Firmware
    from harness.arduino.sketch import Sketch
    from harness.boards.board import Board
    from harness.library.resolve import Library
    from harness.model.artifact import ModelArtifact
    from harness.pipeline import Bench
    from harness.report.run_record import Measurement, RunRecord
    from harness.runner.client import Runner
    from harness.serial.session import Session

RECORD: pytest.StashKey[RunRecord] = pytest.StashKey()
BENCH: pytest.StashKey[Bench] = pytest.StashKey()

DEFAULT_TIMEOUT_S = 1200
"""Bound on one test, its fixtures included; the first test of a run may compile the library."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options carry a prefix, since other plugins own --port and --baud."""
    group = parser.getgroup("hil", "Hardware-in-the-loop tests of the ExecuTorch Arduino library")
    group.addoption("--hil-board", metavar="NAME", help="board to run on ('hil boards' lists them)")
    group.addoption("--hil-port", metavar="PORT", help="port of the board, if several match")
    group.addoption("--hil-serial", metavar="SN", help="serial number of the board")
    group.addoption("--hil-core-version", metavar="V", help="version of the board's core")
    group.addoption(
        "--hil-virtual", action="store_true", help="a hardware board's stand-in, not the board"
    )
    group.addoption("--hil-behave", metavar="FILE", help="how the stand-in misbehaves")
    group.addoption("--hil-bench", metavar="FILE", help="inventory of the boards of this bench")
    group.addoption("--hil-executorch", metavar="DIR", help="ExecuTorch checkout to test")
    group.addoption("--hil-library", metavar="DIR|ZIP", help="an already built Arduino library")
    group.addoption("--hil-root-ops", metavar="OPS", help="op set, passed on as ROOT_OPS=")
    group.addoption("--hil-all-ops", action="store_true", help="every portable op (ALL_OPS=1)")
    group.addoption("--hil-out", metavar="DIR", help="folder of the run's evidence")
    group.addoption("--hil-brief", action="store_true", help="no table of what was measured")


def pytest_configure(config: pytest.Config) -> None:
    """Set up the bench when a board is named; a wrong option ends the run with one sentence."""
    config.addinivalue_line(
        "markers", "hil_sketch(folder): the sketch that the firmware fixture builds"
    )
    config.addinivalue_line("markers", "hil_subject(name): what the case is about, for the report")
    if config.getoption("--hil-board") is not None:
        from harness.pytest_bench import set_up

        config.stash[RECORD], config.stash[BENCH] = set_up(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``model`` runs once for each model, unless it parametrizes it itself.

    Keyed by a fixture of ours that ``model`` takes: a project whose own ``model`` fixture has
    nothing to do with this plugin is left alone.
    """
    if "model_name" not in metafunc.fixturenames or BENCH not in metafunc.config.stash:
        return
    marked = {
        name.strip()
        for mark in metafunc.definition.iter_markers("parametrize")
        for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    }
    if "model" in metafunc.fixturenames and not marked & {"model", "model_name"}:
        from harness.model.export import MODEL_NAMES

        metafunc.parametrize("model_name", MODEL_NAMES, indirect=True, scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bound every test that uses the board, where neither it nor the command line says how."""
    if BENCH not in config.stash or config.getoption("timeout", None):
        return
    for item in items:
        if "bench" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(DEFAULT_TIMEOUT_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the bench which models will be asked for, so that it can begin with them early."""
    if BENCH in session.config.stash:
        session.config.stash[BENCH].models_ahead = selected_models(session.items)


@pytest.fixture(scope="session")
def bench(pytestconfig: pytest.Config) -> Bench:
    """The bench of this run: nothing is built or plugged in yet.

    The board is given back when the session ends, after the last test's evidence is kept.
    """
    made = pytestconfig.stash.get(BENCH, None)
    if made is None:
        pytest.fail(
            "this test needs a board and none was named: give --hil-board NAME"
            " ('hil boards' lists them)",
            pytrace=False,
        )
    return made


@pytest.fixture(scope="session")
def board(bench: Bench) -> Board:
    """The board's data: nothing has been done to a board yet."""
    return bench.board


@pytest.fixture(scope="session")
def library(bench: Bench, pytestconfig: pytest.Config) -> Library:
    """The library under test, as sources: nothing is compiled yet."""
    from harness.pytest_bench import record_library

    return record_library(bench, pytestconfig.stash[RECORD])


@pytest.fixture(scope="session")
def model_name(request: pytest.FixtureRequest) -> str | None:
    """Name of the model that the test runs with; nothing has been done yet."""
    name: str | None = getattr(request, "param", None)
    return name


@pytest.fixture(scope="session")
def model(
    request: pytest.FixtureRequest, bench: Bench, library: Library, model_name: str | None
) -> ModelArtifact:
    """One model, exported for the board's core: nothing is compiled yet."""
    del library  # asked for first, so that a mismatch is said before the export
    bench.export_all(selected_models(request.session.items))
    artifact = bench.model(str(getattr(request, "param", model_name)))
    models = request.config.stash[RECORD].provenance.setdefault("models", {})
    if isinstance(models, dict):
        models[artifact.name] = {"digest": artifact.digest, **artifact.provenance}
    return artifact


def selected_models(items: Sequence[pytest.Item]) -> tuple[str, ...]:
    """Names of the models that this run's tests use, in order and once each."""
    parameters = [getattr(getattr(item, "callspec", None), "params", {}) for item in items]
    used = [each.get("model_name", each.get("model")) for each in parameters]
    return tuple(dict.fromkeys(str(name) for name in used if name is not None))


@pytest.fixture
def measurement(
    request: pytest.FixtureRequest, bench: Bench, pytestconfig: pytest.Config
) -> Measurement:
    """The report's row of this test's subject, to be filled in."""
    from harness.report.pytest_verdicts import subject_of

    del bench  # without one there is no record
    return pytestconfig.stash[RECORD].measure(subject_of(request.node) or request.node.name)


@pytest.fixture
def sketch(request: pytest.FixtureRequest) -> Sketch:
    """The sketch that the test's ``hil_sketch`` mark names, read and not compiled."""
    from harness.arduino.sketch import read_sketch
    from harness.errors import UsageError

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
    from harness.runner.inference import greet

    firmware = bench.runner(model)
    station = bench.station()
    if station.running is None or station.running.key != firmware.key:
        bench.boot(firmware)
    return greet(station.session, firmware.nonce, model)
