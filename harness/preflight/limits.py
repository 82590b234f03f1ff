"""What a sketch can feed and read, and what fits: a program against its user and its board."""

from __future__ import annotations

from typing import Literal

from harness.preflight.finding import Finding, PreflightVerdict
from harness.preflight.program_types import Method, Tensor

# Who gives the model its inputs: the library's ETModel class, the bench's runner sketch, or nobody.
Feeder = Literal["etmodel", "runner", "none"]

ETMODEL_INPUTS = 4  # kMaxInputs of ETModel.h
ETMODEL_RANK = 8  # kMaxDims of ETModel.h


def feeding_findings(method: Method, feeder: Feeder) -> tuple[Finding, ...]:
    """Inputs and outputs that the sketch cannot give or read."""
    if feeder == "none":
        return ()
    found = []
    for kind, indices in (("input", method.inputs), ("output", method.outputs)):
        for number, index in enumerate(indices):
            value = method.values[index]
            if not isinstance(value, Tensor):
                name = "none" if value is None else type(value).__name__.lower()
                problem = f"{kind} {number} is no tensor but of kind {name!r}"
            elif feeder == "etmodel" and value.dtype != "float32":
                problem = f"{kind} {number} is {value}, and ETModel handles float32 only"
            elif feeder == "etmodel" and kind == "input" and len(value.sizes) > ETMODEL_RANK:
                problem = f"input {number} has {len(value.sizes)} dimensions of {ETMODEL_RANK}"
            else:
                continue
            found.append(_feeding(method, problem))
    if feeder == "etmodel" and len(method.inputs) > ETMODEL_INPUTS:
        found.append(
            _feeding(method, f"there are {len(method.inputs)} inputs of at most {ETMODEL_INPUTS}")
        )
    if feeder == "etmodel" and len(method.outputs) != 1:
        found.append(
            _feeding(
                method, f"there are {len(method.outputs)} outputs, and ETModel reads exactly 1"
            )
        )
    return tuple(found)


def _feeding(method: Method, problem: str) -> Finding:
    return Finding(
        PreflightVerdict.UNSUPPORTED_DTYPE,
        f"method {method.name!r} cannot be fed by the sketch: {problem}",
        "give the model float32 tensors, at most 4 in and 1 out, or feed it through the runtime's "
        "own Method class",
        "no error on other dtypes: the bytes are reinterpreted; get_outputs failed (0x12) on other "
        "counts",
        method=method.name,
    )


def size_findings(
    data: bytes,
    method: Method,
    flash_bytes: int | None,
    ram_bytes: int | None,
    arena_bytes: int | None,
) -> tuple[Finding, ...]:
    """Only what is certain: code, stack and the runtime's own structures come on top."""
    planned = sum(method.planned_bytes)
    checks = (
        ("the program", len(data), "flash", flash_bytes, "the linker's 'region overflowed'"),
        ("the planned buffers", planned, "RAM", ram_bytes, "the linker's 'region overflowed'"),
        ("the planned buffers", planned, "arena", arena_bytes, "load_method failed (0x21)"),
    )
    return tuple(
        Finding(
            PreflightVerdict.TOO_LARGE,
            f"{what} take {size} bytes of the board's {limit} bytes of {place}"
            if place != "arena"
            else f"{what} take {size} bytes of an arena of {limit}",
            "use a smaller model or a larger board" if place != "arena" else "use a larger arena",
            device,
            method=method.name,
            program_count=size,
            library_count=limit,
        )
        for what, size, place, limit, device in checks
        if limit is not None and size > limit
    )
