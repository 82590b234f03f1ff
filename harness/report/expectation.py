"""What is right, and the sentence for what is not.  Every function raises :class:`DutFailure`."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TypeVar

from harness.errors import DutFailure, UsageError
from harness.model.export import GoldenCase, ModelArtifact, TensorSpec
from harness.report.observation import LoadFailure

V = TypeVar("V")

MEMORY_ALLOCATION_FAILED = 0x21
"""The runtime's Error::MemoryAllocationFailed."""

GOLDEN_LSB = 1.0
"""Most that a quantized output may differ, in steps of its scale: tie rounding in average pooling.
Measured over 95 inputs on a Cortex-M33: never more, and 89 were exact."""

_FORMATS = {"float32": "f", "int8": "b", "uint8": "B", "int32": "i", "int64": "q", "bool": "?"}


def require_equal(what: str, got: V | None, wanted: V) -> None:
    """The device printed exactly this value; None means it printed none."""
    if got is None:
        raise DutFailure(
            f"the device printed no {what}, {wanted!r} was expected",
            remedy="read the transcript: the sketch stopped before it, or prints it differently",
        )
    if got != wanted:
        raise DutFailure(
            f"wrong output: {what} is {got!r}, {wanted!r} was expected",
            remedy="compare kernels and exporter with the last good library commit",
        )


def require_near(what: str, got: float | None, wanted: float, off_by: float) -> None:
    """The device printed a number within ``off_by`` of ``wanted``; None means it printed none."""
    if got is None or not abs(got - wanted) <= off_by:
        raise DutFailure(
            f"wrong output: {what} is {got!r}, {wanted:.4g} was expected, {off_by:.2g} more or"
            " less",
            remedy="compare kernels and exporter with the last good library commit",
        )


def values(data: bytes, spec: TensorSpec) -> tuple[float, ...]:
    """A tensor's elements as numbers, from its little-endian bytes."""
    form = _FORMATS.get(spec.dtype)
    if form is None:
        raise UsageError(
            f"outputs of type {spec.dtype!r} cannot be compared",
            remedy=f"use one of {', '.join(_FORMATS)}",
        )
    size = struct.calcsize(form)
    if len(data) != spec.nbytes:
        raise DutFailure(
            f"the device returned {len(data)} B of output, {spec.nbytes} B were expected",
            remedy="the model on the board is not the model that was exported: build again",
        )
    return tuple(float(each) for each in struct.unpack(f"<{len(data) // size}{form}", data))


def require_golden(model: ModelArtifact, case: GoldenCase, outputs: Sequence[bytes]) -> float:
    """The output agrees with the exported program's own; returns the largest difference.

    The difference is in steps of the output's scale for a quantized model, and absolute for a
    float one.  A classifier's largest element must be the same one as well.
    """
    if len(outputs) != len(model.outputs):
        raise DutFailure(
            f"model {model.name!r} returned {len(outputs)} outputs, {len(model.outputs)} were"
            " expected",
            remedy="build again from the exported model",
        )
    expected_bytes = case.output_path.read_bytes()
    quantized = model.output_lsb > 0
    step = model.output_lsb if quantized else 1.0
    allowed = GOLDEN_LSB if quantized else model.tolerance
    worst, at = 0.0, 0
    start = 0
    expected_all: list[float] = []
    got_all: list[float] = []
    for data, spec in zip(outputs, model.outputs, strict=True):
        wanted = values(expected_bytes[start : start + spec.nbytes], spec)
        start += spec.nbytes
        got_all.extend(values(data, spec))
        expected_all.extend(wanted)
    for number, (got, wanted_value) in enumerate(zip(got_all, expected_all, strict=True)):
        off = abs(got - wanted_value) / step
        if math.isnan(off) or off > worst:
            worst, at = (math.inf if math.isnan(off) else off), number
    # One step is a rounded quotient of two floats: leave it a little room.
    if worst > allowed * (1 + 1e-4):
        unit = "steps of the output's scale" if quantized else "absolute"
        raise DutFailure(
            f"wrong output: model {model.name!r}, case {case.name!r}, element {at} is"
            f" {got_all[at]:.6g}, {expected_all[at]:.6g} was expected: off by {worst:.3g} {unit},"
            f" {allowed:.3g} allowed",
            cause="kernel, exporter or lowering changed: the program runs and answers wrongly",
            remedy="run 'hil preflight' for a program lowered for another core; then compare the"
            " kernels with the last good library commit",
        )
    if case.label is not None and _largest(got_all) != _largest(expected_all):
        raise DutFailure(
            f"wrong output: model {model.name!r} takes case {case.name!r} for class"
            f" {_largest(got_all)}, class {_largest(expected_all)} was expected",
            remedy="the two classes are within one step of each other: look at the case",
        )
    return worst


def _largest(numbers: Sequence[float]) -> int:
    return max(range(len(numbers)), key=numbers.__getitem__)


def require_arena_shortfall(failure: LoadFailure | None, *, arena_bytes: int) -> None:
    """Loading failed for want of memory, and the runtime's log gave its numbers."""
    if failure is None:
        raise DutFailure(
            f"an arena of {arena_bytes} B is known to fail and the device printed no failure",
            remedy="if the model really needs less now, correct the arena band in the board file",
        )
    if failure.stage != "load_method" or failure.code != MEMORY_ALLOCATION_FAILED:
        raise DutFailure(
            f"an arena of {arena_bytes} B failed in {failure.stage!r} with 0x{failure.code:x},"
            f" load_method with 0x{MEMORY_ALLOCATION_FAILED:x} was expected",
            remedy="decode the code by its stage: pool failures print the pool's size there",
        )
    if failure.requested_bytes is None or failure.available_bytes is None:
        raise DutFailure(
            f"an arena of {arena_bytes} B failed without the allocator's line in the log",
            remedy="the sketch must define et_arduino_log; without it every failure is a bare code",
        )
