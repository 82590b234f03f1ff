"""Bands put together by hand, for tests of what is made of them."""

from __future__ import annotations

from harness.arena.band import Band, On, make_band
from harness.arena.canary import CanaryResult, Sighting
from harness.arena.image import Image, Region
from harness.arena.lower import Attempt, LowerSide, Outcome, Shortfall
from harness.arena.plan import make_plan
from harness.arena.upper import UpperSide, compute_upper
from harness.boards.board import ArenaBand, CoreVersion

BASE = 0x2000_0000
OTHERS_BYTES = 5108
"""The globals beside the pool of the 64 KB build that the library's README tells of."""

ON = On(
    board="unoq",
    core_version="0.90.0",
    sketch="KeywordSpotting",
    serial_number="SN1",
    library="cff6f4dd32",
    exporter="the example's own model",
    stand_in=False,
    emulated=False,
)


def image(pool_bytes: int, *, reserved: Region | None = None) -> Image:
    pool = Region(BASE + 1000, BASE + 1000 + pool_bytes)
    return Image(pool, Region(BASE, BASE + pool_bytes + OTHERS_BYTES), reserved)


def upper_of(core: CoreVersion, pool_bytes: int = 40960) -> UpperSide:
    return compute_upper(
        core, ram_bytes=pool_bytes + OTHERS_BYTES, pool_bytes=pool_bytes, image=image(pool_bytes)
    )


def lower_of(*sizes: int, least: int = 30150, limit: int = 262144) -> LowerSide:
    def attempt(size: int) -> Attempt:
        if size >= least:
            return Attempt(size, Outcome.WORKS, used_bytes=least)
        return Attempt(size, Outcome.FAILS, shortfall=Shortfall(180, 4), said="load_method failed")

    tried = tuple(attempt(size) for size in sorted(sizes) if size <= limit)
    return LowerSide(tried, least, limit, len(tried))


def band_of(
    core: CoreVersion,
    data: ArenaBand | None,
    *,
    least: int = 30150,
    limit: int = 262144,
    asked: tuple[int, ...] = (),
    canaries: tuple[CanaryResult, ...] = (),
    on: On = ON,
    pool_bytes: int = 40960,
) -> Band:
    plan = make_plan(data, shipped_bytes=pool_bytes, asked=asked)
    sizes = [each.size_bytes for each in plan.sizes]
    return make_band(
        on=on,
        when="2026-11-29T10:00:00.000+00:00",
        plan=plan,
        lower=lower_of(*sizes, least=least, limit=limit),
        upper=upper_of(core, pool_bytes),
        canaries=canaries,
        flashes=1,
    )


def sighting(**changed: object) -> Sighting:
    """A canary that saw nothing, but for what is ``changed``."""
    values: dict[str, object] = {
        "pool": Region(BASE + 1000, BASE + 66536),
        "tail_bytes": 35376,
        "foreign_bytes": 0,
        "foreign_at": 0,
        "changed_bytes": 0,
        "changed": Region(0, 0),
        "stack": BASE + 200_000,
        "heap": Region(BASE + 100_000, BASE + 120_000),
        "stack_bytes": 0,
        "stack_unused_bytes": 0,
        "heap_bytes": 0,
        "heap_unused_bytes": 0,
        **changed,
    }
    return Sighting(**values)  # type: ignore[arg-type]  # the keys are those of the class


def canary(
    size_bytes: int = 65536, *, reserved: Region | None = None, **changed: object
) -> CanaryResult:
    return CanaryResult(
        size_bytes,
        image(size_bytes, reserved=reserved),
        sighting(**changed),
        None,
        (">>> Detected: yes", ">>> CORRECT!", "=== DONE ==="),
    )
