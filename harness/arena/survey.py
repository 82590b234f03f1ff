"""One band measured from end to end: example, runner, both sides, and the canary where needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness.arduino.sketch import Sketch
from harness.arena.band import Band, On, make_band
from harness.arena.canary import CanaryResult, run_canary
from harness.arena.image import read_image
from harness.arena.lower import LowerSide, measure_lower
from harness.arena.measure import RunnerLoader
from harness.arena.plan import Plan, make_plan
from harness.arena.pool import Pool, find_pool
from harness.arena.program import carried_program, inputs_of, runner_arena_bytes
from harness.arena.upper import UpperSide, compute_upper
from harness.boards.board import Lane
from harness.clock import wall_iso
from harness.errors import CapabilityMissing, UsageError
from harness.model.artifact import ModelArtifact
from harness.pipeline import Bench

MODEL_OF = {"KeywordSpotting": "keyword_spotting", "AddModel": "add"}
"""The bench's own model of the same kind, for cores that the shipped one was not lowered for."""

BEYOND_BYTES = 16 * 1024
"""Room in the runner beyond the sketch's own arena, where the model needs more than it has."""


@dataclass(frozen=True)
class Wish:
    """What a survey was asked for.

    ``canary``: sizes to run it at, or None for those whose globals reach the reservation.
    """

    sketch: str
    sizes: tuple[int, ...] = ()
    canary: tuple[int, ...] | None = None


def survey(bench: Bench, wish: Wish) -> Band:
    """Measure the band of one sketch on the bench's board.

    One flash for the lower side, none for the upper, one for each size that the canary runs at.
    """
    example, lowered = _example(bench, wish.sketch)
    pool = find_pool(example)
    core = bench.request.core_version
    plan = make_plan(core.arena(wish.sketch), shipped_bytes=pool.size_bytes, asked=wish.sizes)
    upper = _upper(bench, example, pool)
    loader = _loader(bench, example, plan)
    lower = measure_lower(loader, [each.size_bytes for each in plan.sizes])
    canaries = _canaries(bench, example, pool, plan, lower, upper, wish.canary)
    return make_band(
        on=_on(bench, wish.sketch, lowered),
        when=wall_iso(),
        plan=plan,
        lower=lower,
        upper=upper,
        canaries=canaries,
        flashes=loader.flashes,
    )


def _example(bench: Bench, name: str) -> tuple[Sketch, ModelArtifact | None]:
    if name in MODEL_OF:
        return bench.suited_example(name, MODEL_OF[name])
    found = bench.example(name)
    if "model.h" not in found.files:
        raise UsageError(
            f"sketch {name!r} carries no model", remedy="choose one that gives an arena to ETModel"
        )
    return found, None


def _loader(bench: Bench, example: Sketch, plan: Plan) -> RunnerLoader:
    largest = max([each.size_bytes for each in plan.sizes] + [plan.shipped_bytes + BEYOND_BYTES])
    arena = runner_arena_bytes(largest, bench.request.core_version, inputs_of(example))
    program = carried_program(example, bench.target(), arena_bytes=arena)
    return RunnerLoader(bench, program, bench.progress)


def _upper(bench: Bench, example: Sketch, pool: Pool) -> UpperSide:
    firmware = bench.firmware(example)
    core = bench.request.core_version
    image = read_image(firmware.elf, pool.name, ram_bytes=core.ram_bytes)
    if image.pool.size_bytes != pool.size_bytes:
        raise UsageError(
            f"{pool.name!r} has {image.pool.size_bytes} B in the firmware and"
            f" {pool.size_bytes} B in {example.name}.ino",
            remedy="write the size as a number: the bench reads no other expression",
        )
    return compute_upper(
        core, ram_bytes=firmware.footprint.ram_bytes, pool_bytes=pool.size_bytes, image=image
    )


def _canaries(
    bench: Bench,
    example: Sketch,
    pool: Pool,
    plan: Plan,
    lower: LowerSide,
    upper: UpperSide,
    asked: Sequence[int] | None,
) -> tuple[CanaryResult, ...]:
    if lower.smallest_bytes is None:
        return ()
    if asked is None:
        asked = [
            each.size_bytes
            for each in plan.sizes
            if upper.reach_bytes(each.size_bytes) and upper.fits_ram(each.size_bytes)
        ]
    return tuple(
        run_canary(
            bench,
            example,
            pool,
            size_bytes=size,
            used_bytes=lower.smallest_bytes,
            progress=bench.progress,
        )
        for size in asked
    )


def _on(bench: Bench, sketch: str, lowered: ModelArtifact | None) -> On:
    provenance = bench.library().provenance
    commit = provenance.commit
    named = f"{commit[:10]}{' with changes' if provenance.dirty else ''}" if commit else ""
    exporter = "the example's own model"
    if lowered is not None:
        exporter = f"{lowered.name} lowered for {lowered.target.label} by {provenance.exporter}"
    serial_number = "unknown"
    with suppress(CapabilityMissing):
        serial_number = bench.station().port.serial_number or serial_number
    return On(
        board=bench.board.name,
        core_version=bench.request.core_version.version,
        sketch=sketch,
        serial_number=serial_number,
        library=named or provenance.version,
        exporter=exporter,
        stand_in=bench.board.lane is Lane.HARDWARE and bench.request.virtual,
        emulated=bench.board.lane is not Lane.HARDWARE,
    )
