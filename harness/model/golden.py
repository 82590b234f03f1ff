"""Golden cases: what goes into a program and what has to come out, as bytes.

Runs only in the export worker's process.  Expected outputs come from the lowered edge program run
with the reference operators in Python; a device differs from them by at most one step of the
output's scale.  Bytes are little-endian and in the order of memory, so that a channels-last input
can be copied into the tensor as it is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.model.registry.spec import ModelSpec, Recording
from harness.model.seeded import seeded_bytes

FLOAT_TOLERANCE = 1e-5
"""How far two float32 programs may differ, relative to the largest output of all cases.

Rounding to float32 is off by 6e-8 at most; a sum of n products taken in another order by about
the root of n times that, 2e-6 for the widest sum here (n = 1,000), and layers add theirs.  A wrong
weight, bias or shape moves outputs by 1e-2 and more.
"""

_DTYPES = {
    "BYTE": "uint8",
    "CHAR": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOL": "bool",
}


class GoldenError(Exception):
    """Two ways to compute the same output disagree, so there is none to judge a device by."""


@dataclass(frozen=True)
class Port:
    """One input or output of the program as the device sees it."""

    dtype: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class Case:
    """One case before it is written; ``seed`` and ``label`` as in ``GoldenCase``."""

    name: str
    seed: int | None
    label: str | None
    data: bytes


def port(value: Any) -> Port:
    """The type and layout of one tensor of the emitted program."""
    tensor = value.val
    return Port(
        dtype=_DTYPES.get(tensor.scalar_type.name, tensor.scalar_type.name.lower()),
        sizes=tuple(int(each) for each in tensor.sizes),
        dim_order=tuple(int(each) for each in tensor.dim_order),
    )


def cases(spec: ModelSpec, recordings: Iterable[Recording], where: Port) -> tuple[Case, ...]:
    """Every case of a model: its recordings first, then the seeds."""
    recorded = tuple(
        Case(name=each.name, seed=None, label=each.label, data=recorded_bytes(each))
        for each in recordings
    )
    seeded = tuple(
        Case(
            name=f"seed_{seed}",
            seed=seed,
            label=None,
            data=seeded_bytes(where.dtype, where.numel, seed),
        )
        for seed in spec.case_seeds
    )
    return recorded + seeded


def write_cases(
    folder: Path,
    chosen: Iterable[Case],
    *,
    source: Port,
    result: Port,
    run: Callable[[Any], Any],
    labels: tuple[str, ...],
) -> list[dict[str, Any]]:
    """Write each case's input, run it, write what came out; returns the records.

    A recorded case's ``expected_class`` is the class that ``run`` gives: the program's own answer,
    right or not, is what a device has to repeat.
    """
    folder.mkdir()
    records = []
    for case in chosen:
        output = run(from_memory(case.data, source))
        (folder / f"{case.name}.in").write_bytes(case.data)
        (folder / f"{case.name}.out").write_bytes(to_memory(output, result.dim_order))
        expected = int(output.argmax()) if case.label is not None and labels else None
        records.append(
            {
                "name": case.name,
                "seed": case.seed,
                "label": case.label,
                "expected_class": expected,
                "largest": float(output.abs().max()),
            }
        )
    return records


def from_memory(data: bytes, where: Port) -> Any:
    """A tensor of ``where``'s logical sizes over bytes in the order of memory."""
    import torch

    flat = torch.frombuffer(bytearray(data), dtype=getattr(torch, where.dtype))
    stored = flat.reshape([where.sizes[axis] for axis in where.dim_order])
    back = sorted(range(len(where.dim_order)), key=lambda axis: where.dim_order[axis])
    return stored.permute(back)


def to_memory(tensor: Any, dim_order: tuple[int, ...]) -> bytes:
    """The bytes of ``tensor`` as they lie in memory with that order of dimensions."""
    stored = tensor.detach().permute(dim_order).contiguous()
    data: bytes = stored.numpy().tobytes()
    return data


def recorded_bytes(recording: Recording) -> bytes:
    """A recording's values as the bytes of a float32 tensor."""
    return struct.pack(f"<{len(recording.values)}f", *recording.values)


def check_with_wheel(
    program: bytes,
    folder: Path,
    records: Iterable[Mapping[str, Any]],
    *,
    source: Port,
    result: Port,
    tolerance: float,
) -> str:
    """Run a portable program in the wheel's own runtime and compare; returns one line about it.

    Raises :class:`GoldenError` when the two differ by more than ``tolerance``: then one of them is
    wrong, and no device can be judged by either.
    """
    try:
        from executorch.runtime import Runtime
    except (ImportError, OSError) as error:
        return f"not done: the wheel's runtime cannot be loaded ({error})"
    method = Runtime.get().load_program(program).load_method("forward")
    furthest = 0.0
    for record in records:
        name = record["name"]
        given = from_memory((folder / f"{name}.in").read_bytes(), source)
        expected = from_memory((folder / f"{name}.out").read_bytes(), result)
        (answer,) = method.execute((given,))
        furthest = max(furthest, float((answer - expected).abs().max()))
    if not furthest <= tolerance:
        raise GoldenError(
            f"the wheel's runtime differs from the reference by {furthest!r}, more than"
            f" {tolerance!r}"
        )
    return f"the wheel's runtime differs by {furthest:.3g} at most"
