"""One golden case through the runner: inputs in, outputs and counts back."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from harness.errors import DutFailure, UsageError
from harness.model.export import GoldenCase, ModelArtifact
from harness.runner.client import Runner
from harness.serial.session import Session


@dataclass(frozen=True)
class Inference:
    """Raw output bytes, and the instructions of one execute() where the lane counts them."""

    outputs: tuple[bytes, ...]
    instructions: int | None


def greet(session: Session, nonce: str, model: ModelArtifact) -> Runner:
    """The runner behind ``session``, which must be this build and carry this model."""
    runner = Runner(session, nonce)
    info = runner.hello()
    if info.model_digest != model.digest[: len(info.model_digest)] or not info.model_digest:
        raise DutFailure(
            f"the runner carries model {info.model_digest!r}, not {model.name!r}"
            f" ({model.digest[:16]!r})",
            remedy="build and upload again; the build is stale",
        )
    if info.model_crc32 != zlib.crc32(model.pte.read_bytes()):
        raise DutFailure(
            f"the program of model {model.name!r} in the board's flash is not the exported one:"
            f" its CRC-32 is {info.model_crc32:#010x}",
            remedy="build and upload again; a program carries no checksum of its own and would"
            " just answer wrongly",
        )
    return runner


def infer(runner: Runner, model: ModelArtifact, case: GoldenCase) -> Inference:
    """Give the case's inputs, run once, and return what came out."""
    if case.seed is not None and len(model.inputs) == 1:
        runner.seed_input(0, case.seed)
    else:
        _put(runner, model, case)
    counted = runner.run()
    outputs = tuple(runner.output(index) for index in range(len(model.outputs)))
    return Inference(outputs, counted.instructions)


def _put(runner: Runner, model: ModelArtifact, case: GoldenCase) -> None:
    data = case.input_path.read_bytes()
    wanted = sum(spec.nbytes for spec in model.inputs)
    if len(data) != wanted:
        raise UsageError(
            f"case {case.name!r} of model {model.name!r} has {len(data)} B of input,"
            f" {wanted} B are needed",
            remedy="delete the model's folder in the cache and run again",
        )
    start = 0
    for index, spec in enumerate(model.inputs):
        runner.set_input(index, data[start : start + spec.nbytes])
        start += spec.nbytes
