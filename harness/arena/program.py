"""The program that an example carries, made into what the runner sketch is built from."""

from __future__ import annotations

from pathlib import Path

from harness.arduino.sketch import Sketch
from harness.boards.board import CoreVersion
from harness.errors import CapabilityMissing, DutFailure
from harness.model.artifact import ExportTarget, ModelArtifact, TensorSpec
from harness.model.header import header_text
from harness.preflight.check import program_of_header
from harness.preflight.program import read_program
from harness.preflight.program_types import Tensor
from harness.runner.build import (
    GUARD_BYTES,
    INPUT_ALIGNMENT,
    MAX_ARENA_BYTES,
    RAM_FOR_SKETCH_BYTES,
)
from harness.storage import cache
from harness.storage.digest import bytes_digest


def carried_program(sketch: Sketch, target: ExportTarget, *, arena_bytes: int) -> ModelArtifact:
    """The program of the sketch's ``model.h`` as an artifact without golden cases.

    ``arena_bytes`` is the largest arena that the runner must be able to give it.  Raises
    :class:`DutFailure` where the header holds no program with tensors for inputs and outputs.
    """
    program = program_of_header(sketch.files["model.h"])
    digest = bytes_digest(program)
    inputs, outputs = _tensors(program, sketch.name)

    def make(folder: Path) -> None:
        (folder / "model.pte").write_bytes(program)
        text = header_text(program, title="a program that an example sketch carries")
        (folder / "model.h").write_text(text, encoding="utf-8")

    folder = cache.entry("carried", digest, make)
    return ModelArtifact(
        name=f"of {sketch.name}",
        target=target,
        pte=folder / "model.pte",
        header=folder / "model.h",
        digest=digest,
        inputs=inputs,
        outputs=outputs,
        output_lsb=0.0,
        tolerance=0.0,
        cases=(),
        provenance={"example": sketch.name},
        arena_hint_bytes=arena_bytes,
    )


def runner_arena_bytes(wanted_bytes: int, core: CoreVersion, inputs: tuple[TensorSpec, ...]) -> int:
    """The largest arena, up to ``wanted_bytes``, that the runner can have on this core.

    The runner's own globals must stay clear of the reservation: it is to measure, not to be the
    fault.  Raises :class:`CapabilityMissing` where nothing is left.
    """
    room = core.ram_bytes - core.stack_bytes - core.heap_bytes - RAM_FOR_SKETCH_BYTES
    beside = GUARD_BYTES + sum(
        -(-each.nbytes // INPUT_ALIGNMENT) * INPUT_ALIGNMENT for each in inputs
    )
    # The block is rounded up to whole KiB.
    most = min(room // 1024 * 1024, MAX_ARENA_BYTES) - beside
    if most <= 0:
        raise CapabilityMissing(
            f"core {core.version!r} leaves the runner {room} B of RAM, too little for any arena",
            remedy="measure on a board with the same core and more RAM",
        )
    return min(wanted_bytes, most)


def inputs_of(sketch: Sketch) -> tuple[TensorSpec, ...]:
    """The inputs of the program that the sketch carries."""
    return _tensors(program_of_header(sketch.files["model.h"]), sketch.name)[0]


def _tensors(program: bytes, name: str) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    method = read_program(program).methods[0]

    def specs(indices: tuple[int, ...]) -> tuple[TensorSpec, ...]:
        found = []
        for index in indices:
            value = method.values[index]
            if not isinstance(value, Tensor):
                raise DutFailure(
                    f"the model of sketch {name!r} takes or gives what is no tensor",
                    remedy="the runner feeds tensors only: measure the band by hand",
                )
            found.append(TensorSpec(value.dtype, value.sizes, value.dim_order))
        return tuple(found)

    return specs(method.inputs), specs(method.outputs)
