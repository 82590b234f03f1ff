"""Every model through the runner sketch: one flash serves load, goldens, arena and counts."""

from __future__ import annotations

from harness.errors import DutFailure
from harness.model.export import ModelArtifact
from harness.pipeline import Bench
from harness.report.expectation import MEMORY_ALLOCATION_FAILED, require_equal, require_golden
from harness.report.run_record import Measurement
from harness.runner.client import Runner
from harness.runner.inference import infer
from harness.runner.info import RunnerFailure
from harness.runner.link import RunnerCrashed

LOAD_TIMEOUT_S = 10.0
"""Loading takes milliseconds; a runtime that crashed says nothing until this is over."""


def test_it_compiles_and_fits(bench: Bench, model: ModelArtifact, measurement: Measurement) -> None:
    firmware = bench.runner(model)
    measurement.flash_bytes = firmware.footprint.flash_bytes
    measurement.ram_bytes = firmware.footprint.ram_bytes


def test_its_output_is_right(
    runner: Runner, model: ModelArtifact, measurement: Measurement
) -> None:
    assert model.cases, "a model without golden cases proves nothing"
    measurement.arena_bytes = runner.load(runner.info.arena_limit_bytes).high_water_bytes
    worst, labelled = 0.0, 0
    for case in model.cases:
        result = infer(runner, model, case)
        worst = max(worst, require_golden(model, case, result.outputs))
        labelled += case.label is not None
        if result.instructions is not None:
            measurement.instructions = result.instructions
    unit = " LSB" if model.output_lsb > 0 else ""
    told = f"{len(model.cases)} cases within {worst:.2g}{unit}"
    measurement.output = f"{told}, {labelled} classes right" if labelled else told


def test_its_smallest_arena_works_and_one_byte_less_fails(
    bench: Bench, runner: Runner, model: ModelArtifact, measurement: Measurement
) -> None:
    least = runner.load(runner.info.arena_limit_bytes).high_water_bytes
    assert 0 < least <= runner.info.arena_limit_bytes
    assert runner.load(least).high_water_bytes == least
    try:
        runner.load(least - 1, timeout_s=LOAD_TIMEOUT_S)
    except RunnerFailure as failure:
        require_equal("the code of the failed load", failure.code, MEMORY_ALLOCATION_FAILED)
    except RunnerCrashed:
        # The runtime does not check every allocation of an integer list: it writes through null.
        measurement.notes.append(f"an arena of {least - 1} B crashes the runtime with no error")
        bench.station().reset()
    else:
        raise DutFailure(
            f"model {model.name!r} loads in {least - 1} B, though its loader used {least} B",
            remedy="the allocator's high-water mark can no longer be trusted as the minimum",
        )


def test_a_second_run_repeats(runner: Runner, model: ModelArtifact) -> None:
    runner.load(runner.info.arena_limit_bytes)
    first = infer(runner, model, model.cases[0])
    second = infer(runner, model, model.cases[0])
    assert first.outputs == second.outputs, "the same input gave another answer"
    assert first.instructions == second.instructions, "the same input took another path"
