"""Every model through the runner sketch: one flash serves load, goldens, arena and counts."""

from __future__ import annotations

from harness.expectation import require_golden
from harness.model import ModelArtifact
from harness.pipeline import Bench
from harness.run_record import Measurement
from harness.runner import Runner


def test_it_compiles_and_fits(bench: Bench, model: ModelArtifact, measurement: Measurement) -> None:
    firmware = bench.runner(model)
    measurement.flash_bytes = firmware.footprint.flash_bytes
    measurement.ram_bytes = firmware.footprint.ram_bytes


def test_it_loads(runner: Runner, model: ModelArtifact, measurement: Measurement) -> None:
    report = runner.report
    assert report.model_digest == model.digest[:16], "the board carries another model"
    loaded = runner.load(report.arena_limit_bytes)
    measurement.arena_bytes = loaded.used_bytes
    assert 0 < loaded.used_bytes <= report.arena_limit_bytes


def test_its_output_is_right(
    runner: Runner, model: ModelArtifact, measurement: Measurement
) -> None:
    assert model.cases, "a model without golden cases proves nothing"
    runner.load(runner.report.arena_limit_bytes)
    worst = 0.0
    classes = 0
    for case in model.cases:
        result = runner.infer(case)
        worst = max(worst, require_golden(model, case, result.outputs))
        classes += case.label is not None
        if result.instructions is not None:
            measurement.instructions = result.instructions
    told = f"{len(model.cases)} cases, off by at most {worst:.3g}"
    measurement.output = f"{told}, {classes} classes right" if classes else told


def test_a_smaller_arena_fails_and_the_minimum_works(runner: Runner, model: ModelArtifact) -> None:
    used = runner.load(runner.report.arena_limit_bytes).used_bytes
    runner.load(used)
    failure = runner.load_failure(used - 1)
    assert failure is not None, f"an arena of {used - 1} B works, though {used} B are used"


def test_a_second_run_repeats(runner: Runner, model: ModelArtifact) -> None:
    runner.load(runner.report.arena_limit_bytes)
    first = runner.infer(model.cases[0])
    second = runner.infer(model.cases[0])
    assert first.outputs == second.outputs
    assert first.instructions == second.instructions
