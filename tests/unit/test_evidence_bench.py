"""The replaying bench answers everything that a real one does, and nothing for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.evidence.player import CannotReplay
from harness.evidence.replay_bench import ReplayBench, ReplayStation, open_bench
from harness.evidence.run_folder import open_run
from harness.pipeline import Bench
from tests.unit.recorded_run import Recorder, edit, passing, renew

KNOWS_NOTHING_OF_THE_WORLD = frozenset({"board"})
"""Members of a bench that only look at what it was asked for."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recorder = Recorder(tmp_path / "run")
    passing(recorder)
    return recorder.finish()


@pytest.fixture
def bench(folder: Path) -> ReplayBench:
    return open_bench(open_run(folder), print)


def members(kind: type[object]) -> set[str]:
    """Public methods and properties; a dataclass's defaults are data."""
    fields = getattr(kind, "__dataclass_fields__", {})
    return {name for name in vars(kind) if not name.startswith("_") and name not in fields}


def test_it_overrides_every_public_member_of_a_bench() -> None:
    left = members(Bench) - members(ReplayBench) - KNOWS_NOTHING_OF_THE_WORLD
    assert not left, f"a replay would do these for real: teach ReplayBench {sorted(left)}"


def test_what_was_not_recorded_cannot_be_asked_for(bench: ReplayBench) -> None:
    for ask in (
        lambda: bench.cli,
        bench.linked,
        bench.library,
        bench.target,
        lambda: bench.model("add"),
        lambda: bench.suited_example("AddModel", "add"),
        lambda: bench.check(b"", what="a model", feeder="runner"),
    ):
        bench.player.cannot = None
        with pytest.raises(CannotReplay, match="which the recording does not have"):
            ask()
        assert bench.player.cannot is not None


def test_a_part_of_the_board_that_is_not_recorded_cannot_be_asked_for(bench: ReplayBench) -> None:
    station = bench.station()
    assert isinstance(station, ReplayStation)
    with pytest.raises(CannotReplay, match="'plugged' of the board"):
        getattr(station, "plugged")  # noqa: B009  # mypy knows that it has none
    assert not hasattr(station, "plugged")


def test_a_board_that_this_bench_does_not_know_is_the_callers_mistake(folder: Path) -> None:
    edit(folder / "begun.json", b'"board": "m33"', b'"board": "m34"')
    renew(folder)
    with pytest.raises(UsageError, match="m34"):
        open_bench(open_run(folder), print)


def test_a_model_outside_of_the_run_is_not_read(bench: ReplayBench) -> None:
    with pytest.raises(CannotReplay, match="lies outside"):
        bench._artifact("../../elsewhere")
    with pytest.raises(CannotReplay, match="lies outside"):
        bench._artifact("/etc")
