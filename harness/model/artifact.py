"""What an export leaves: the program, its header, its golden cases and where it came from."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import BenchError
from harness.storage.digest import file_digest

_ITEM_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "float16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}


@dataclass(frozen=True)
class ExportTarget:
    """What a program is exported for: portable float kernels, or int8 for one Cortex-M core.

    ``cpu``: ``m33`` and so on for ``cortex-m``, None for ``portable``.
    """

    kind: Literal["portable", "cortex-m"]
    cpu: str | None = None

    def __post_init__(self) -> None:
        if (self.kind == "cortex-m") != (self.cpu is not None):
            raise ValueError(f"a {self.kind!r} target cannot have the core {self.cpu!r}")

    @property
    def label(self) -> str:
        """``portable`` or ``cortex-m33``."""
        return "portable" if self.cpu is None else f"cortex-{self.cpu}"


PORTABLE = ExportTarget("portable")


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a program, as the device sees it.

    ``sizes`` are logical; ``dim_order`` lists the dimensions from outermost to innermost in
    memory: ``(0, 2, 3, 1)`` is channels-last.
    """

    dtype: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of its data in bytes."""
        return math.prod(self.sizes) * _ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class GoldenCase:
    """One input and the output it must give, as files of little-endian bytes in memory order.

    ``seed``: the input equals what the generator of :mod:`harness.model.seeded` gives; None for a
    recorded input.  ``label``: the class that a recorded input is of.  ``expected_class``: the
    class that the exported program itself takes it for in Python.
    """

    name: str
    seed: int | None
    input_path: Path
    output_path: Path
    label: str | None
    expected_class: int | None = None


@dataclass(frozen=True)
class ModelArtifact:
    """An exported program with everything needed to build, load and judge it.

    ``target`` is what it was really exported for: a model without an int8 form is the portable
    program on every board.  ``digest``: SHA-256 of ``pte``.  ``output_lsb``: one step of the
    output's scale, 0.0 for a float program; then ``tolerance`` is the absolute difference allowed.
    ``labels``: class names by number, empty for a model that is no classifier or not trained.
    ``arena_hint_bytes``: an arena that surely suffices, not the smallest.
    """

    name: str
    target: ExportTarget
    pte: Path
    header: Path
    digest: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    output_lsb: float
    tolerance: float
    cases: tuple[GoldenCase, ...]
    provenance: dict[str, str]
    arena_hint_bytes: int
    labels: tuple[str, ...] = ()


def read_artifact(folder: Path) -> ModelArtifact:
    """The artifact that an export left in ``folder``.

    Raises :class:`BenchError` when its record is unreadable or the program is not the one that it
    describes: nothing else would notice a changed weight.
    """
    try:
        raw: dict[str, Any] = json.loads((folder / "artifact.json").read_text(encoding="utf-8"))
        artifact = _artifact(raw, folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(
            f"the export in {str(folder)!r} is unreadable: {error!r}",
            remedy="delete that folder; it is made again",
        ) from error
    if file_digest(artifact.pte) != artifact.digest:
        raise BenchError(
            f"{str(artifact.pte)!r} is not the program that was exported",
            remedy=f"delete {str(folder)!r}; it is made again",
        )
    return artifact


def _artifact(raw: dict[str, Any], folder: Path) -> ModelArtifact:
    cpu = raw["cpu"]
    return ModelArtifact(
        name=raw["name"],
        target=PORTABLE if cpu is None else ExportTarget("cortex-m", cpu),
        pte=folder / "model.pte",
        header=folder / "model.h",
        digest=raw["digest"],
        inputs=tuple(_tensor(each) for each in raw["inputs"]),
        outputs=tuple(_tensor(each) for each in raw["outputs"]),
        output_lsb=raw["output_lsb"],
        tolerance=raw["tolerance"],
        cases=tuple(
            GoldenCase(
                name=each["name"],
                seed=each["seed"],
                input_path=folder / "cases" / f"{each['name']}.in",
                output_path=folder / "cases" / f"{each['name']}.out",
                label=each["label"],
                expected_class=each["expected_class"],
            )
            for each in raw["cases"]
        ),
        provenance=dict(raw["provenance"]),
        arena_hint_bytes=raw["arena_hint_bytes"],
        labels=tuple(raw["labels"]),
    )


def _tensor(raw: dict[str, Any]) -> TensorSpec:
    return TensorSpec(raw["dtype"], tuple(raw["sizes"]), tuple(raw["dim_order"]))
