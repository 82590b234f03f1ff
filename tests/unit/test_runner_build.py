"""What a board has no RAM for is skipped, by the core version in use and before preflight."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from harness.boards.board import find_board
from harness.desk.desk import Desk
from harness.errors import CapabilityMissing
from harness.model.artifact import ModelArtifact
from harness.model.export import ExportTarget
from harness.pipeline import Bench, Request
from harness.runner.build import arena_bytes


@dataclass
class Large:
    """As much of an artifact as is looked at: its name, its arena, and no program to preflight."""

    arena_hint_bytes: int
    name: str = "large"
    target: ExportTarget = field(default_factory=lambda: ExportTarget("cortex-m", "m33"))
    inputs: tuple[()] = ()

    @property
    def pte(self) -> Path:
        raise AssertionError("preflight came first")


def artifact(kib: int) -> ModelArtifact:
    return cast(ModelArtifact, Large(kib * 1024))


@pytest.mark.parametrize(
    ("version", "fits_kib", "large_kib"), [("0.55.2", 40, 60), ("0.90.0", 160, 190)]
)
def test_the_core_version_in_use_decides(version: str, fits_kib: int, large_kib: int) -> None:
    board = find_board("unoq")
    core = board.core_version(version)
    assert arena_bytes(artifact(fits_kib), board, core) >= fits_kib * 1024
    with pytest.raises(CapabilityMissing, match=f"core {version} of board 'unoq' leaves"):
        arena_bytes(artifact(large_kib), board, core)


def test_a_model_that_is_only_large_is_skipped_and_not_found_wrong() -> None:
    board = find_board("unoq")
    request = Request(board, board.core_version("0.55.2"), virtual=True)
    bench = Bench(request, Desk(None), lambda _: None)
    with pytest.raises(CapabilityMissing, match="model 'large' needs an arena"):
        bench.runner(artifact(300))
