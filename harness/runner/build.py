"""The runner sketch with a model in it: its generated headers and its arena.

The same list of files for every model, so that another model costs one object and one link.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.arduino.sketch import Sketch, read_sketch
from harness.boards.board import Board, CoreVersion, Lane
from harness.errors import CapabilityMissing
from harness.library.resolve import Library
from harness.model.export import ModelArtifact
from harness.paths import sketches_dir

RAM_FOR_SKETCH_BYTES = 16 * 1024
"""RAM the runner itself and the core's statics take, kept out of the arena: 6 to 12 KB measured."""

MAX_ARENA_BYTES = 1024 * 1024

INPUT_ALIGNMENT = 16
GUARD_BYTES = 64
"""Of the runner's block: see docs/protocol.md."""


def arena_bytes(artifact: ModelArtifact, board: Board, core: CoreVersion) -> int:
    """The arena the runner is built with, in bytes: what the model may need, if the board has it.

    Raises :class:`CapabilityMissing` when the model's planned buffers alone do not fit.
    """
    room = core.ram_bytes - core.stack_bytes - core.heap_bytes - RAM_FOR_SKETCH_BYTES
    # The runner keeps its inputs and a guard behind the arena, in the same block.
    inputs = sum(-(-spec.nbytes // INPUT_ALIGNMENT) * INPUT_ALIGNMENT for spec in artifact.inputs)
    hint = artifact.arena_hint_bytes
    if board.lane is Lane.HOST and artifact.target.kind == "cortex-m":
        # The hint counts 4-byte pointers, and here they have 8.
        hint *= 2
    wanted = -(-(hint + inputs + GUARD_BYTES) // 1024) * 1024
    if wanted > room:
        raise CapabilityMissing(
            f"model {artifact.name!r} needs an arena of about {wanted} B and core"
            f" {core.version} of board {board.name!r} leaves {room} B",
            remedy="run it on a board with more RAM",
        )
    return min(wanted, MAX_ARENA_BYTES)


def runner_sketch(artifact: ModelArtifact) -> Sketch:
    """The runner with ``model.h``; ``hil_build.h`` comes with the nonce at build time."""
    return read_sketch(sketches_dir() / "runner").with_files(
        {"model.h": artifact.header.read_bytes()}
    )


def headers(
    nonce: str, artifact: ModelArtifact, library: Library, board: Board, core: CoreVersion
) -> Mapping[str, bytes]:
    """``hil_build.h``: what the sketch reports of itself, so that stale output is not believed."""
    commit = library.provenance.commit or library.provenance.version
    text = (
        "#pragma once\n"
        f'#define HIL_BUILD_NONCE "{nonce}"\n'
        f'#define HIL_MODEL_DIGEST "{artifact.digest[:16]}"\n'
        f'#define HIL_LIBRARY_COMMIT "{commit[:12]}"\n'
        f"#define HIL_ARENA_BYTES {arena_bytes(artifact, board, core)}\n"
    )
    return {"hil_build.h": text.encode()}
