"""What the runner tells: itself, its tensors, what loading and running gave, and failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.errors import DutFailure

CountUnit: TypeAlias = Literal["instructions", "us", "none"]


class RunnerFailure(DutFailure):
    """The runner did what it was told, and runtime or model said no.

    ``call`` is the runtime call that failed, ``code`` its error code (0 where the runner itself
    refused), ``detail`` the first line the runtime logged at level error, ``used_bytes`` what the
    allocator had given out by then (only for a failed load).
    """

    stage = "session"

    def __init__(
        self,
        message: str,
        *,
        remedy: str,
        evidence: tuple[str, ...] = (),
        call: str,
        code: int,
        detail: str,
        used_bytes: int | None,
    ) -> None:
        super().__init__(message, remedy=remedy, evidence=evidence)
        self.call = call
        self.code = code
        self.detail = detail
        self.used_bytes = used_bytes


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of the program; ``dim_order`` is the order of its dimensions in memory."""

    dtype: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    nbytes: int
    memory_planned: bool


@dataclass(frozen=True)
class RunnerInfo:
    """What the runner said of itself and of its program.

    ``arena_limit_bytes`` is the largest arena that can be loaded: the board's block without inputs
    and guard.  ``model_crc32`` is computed on the board over the program as it lies in flash.
    """

    nonce: str
    model_digest: str
    model_bytes: int
    model_crc32: int
    library_commit: str
    count_unit: CountUnit
    pointer_bytes: int
    block_bytes: int
    arena_limit_bytes: int
    planned_bytes: int
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


@dataclass(frozen=True)
class LoadResult:
    """A method that was loaded: the arena it was given and the allocator's high-water mark."""

    arena_bytes: int
    high_water_bytes: int


@dataclass(frozen=True)
class RunResult:
    """Counts of execute() alone over ``runs`` runs, in ``unit``; None where nothing counts."""

    runs: int
    unit: CountUnit
    least: int | None
    most: int | None
    total: int | None

    @property
    def instructions(self) -> int | None:
        """Instructions of one run, when counted and the same in every run; None otherwise."""
        return self.least if self.unit == "instructions" and self.least == self.most else None
