from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.arena import measure
from harness.arena.lower import Outcome, measure_lower
from harness.arena.measure import RunnerLoader
from harness.model.artifact import PORTABLE, ModelArtifact
from harness.pipeline import Bench
from harness.runner import link as runner_link
from harness.runner.client import Runner
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.transcript import open_transcript
from tests.unit.fake_runner import BLOCK_BYTES, MINIMUM_ARENA_BYTES, NONCE, FakeRunner, running

MODEL = ModelArtifact(
    "of S", PORTABLE, Path("p"), Path("h"), "ab" * 32, (), (), 0.0, 0.0, (), {}, 4096
)


class Board:
    """What a loader uses of a bench; counts uploads and resets."""

    def __init__(self, fake: FakeRunner, session: Session) -> None:
        self.fake, self.session = fake, session
        self.uploads = self.resets = 0

    def runner(self, model: ModelArtifact) -> Any:
        assert model is MODEL
        return SimpleNamespace(nonce=NONCE, sketch="runner")

    def boot(self, firmware: Any) -> Session:  # noqa: ARG002
        self.uploads += 1
        return self.session

    def station(self) -> Any:
        return SimpleNamespace(reset=self.reset, session=self.session)

    def reset(self) -> None:
        self.resets += 1
        self.fake.reset_on = None
        self.fake.forget()


@pytest.fixture(autouse=True)
def _greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    def greet(session: Session, nonce: str, _: ModelArtifact) -> Runner:
        runner = Runner(session, nonce)
        runner.hello(5)
        return runner

    monkeypatch.setattr(measure, "greet", greet)
    monkeypatch.setattr(runner_link, "FIRST_RETRY_S", 0.1)
    monkeypatch.setattr(runner_link, "GREETING_RETRY_S", 0.05)
    monkeypatch.setattr(runner_link, "MAX_SENDS", 4)


@pytest.fixture
def fake() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def board(fake: FakeRunner) -> Iterator[Board]:
    with running(fake), Session(open_serial_port(fake.port), open_transcript(None)) as session:
        yield Board(fake, session)


@pytest.fixture
def loader(board: Board) -> RunnerLoader:
    return RunnerLoader(cast(Bench, board), MODEL, lambda line: None)  # noqa: ARG005


def test_one_upload_serves_every_size(loader: RunnerLoader, board: Board) -> None:
    side = measure_lower(loader, [100, 300, 1000, 2000])
    assert board.uploads == loader.flashes == 1
    assert side.smallest_bytes == MINIMUM_ARENA_BYTES
    assert side.limit_bytes == BLOCK_BYTES - 80
    assert [side.at(size).outcome for size in (100, 300, 1000, 2000)] == [
        Outcome.FAILS,
        Outcome.FAILS,
        Outcome.WORKS,
        Outcome.WORKS,
    ]
    failed = side.at(100)
    assert failed.said.startswith("load_method failed (0x21): no memory")
    assert failed.used_bytes == 96


def test_a_runtime_that_crashes_is_reset_and_the_next_size_tried(
    loader: RunnerLoader, board: Board, fake: FakeRunner
) -> None:
    assert loader.attempt(1000).works
    fake.reset_on = "load"
    crashed = loader.attempt(900)
    assert crashed.outcome is Outcome.CRASHES
    assert crashed.said
    assert (board.resets, board.uploads) == (1, 1)
    assert loader.attempt(900).works


def test_an_answer_that_depends_on_the_arena_does_not_work(
    loader: RunnerLoader, fake: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert loader.attempt(1000).works
    honest = fake._do_out

    def wrong(index: str) -> dict[str, object]:
        fake._output = b"\xff" * 12
        return honest(index)

    monkeypatch.setattr(fake, "_do_out", wrong)
    attempt = loader.attempt(1100)
    assert attempt.outcome is Outcome.WRONG
    assert "its outputs have CRC-32" in attempt.said
