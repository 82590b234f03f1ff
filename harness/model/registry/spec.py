"""What the registry knows of a model before anything is exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Layout = Literal["contiguous", "channels-last"]


@dataclass(frozen=True)
class Recording:
    """One real input that comes with a model.

    ``values``: floats in the memory order of the exported program's input.  ``label``: the class
    that the recording is of, one of the model's labels.
    """

    name: str
    label: str
    values: tuple[float, ...]


def no_recordings(_checkout: Path | None) -> tuple[Recording, ...]:
    """Of a model whose cases all come from seeds."""
    return ()


@dataclass(frozen=True)
class ModelSpec:
    """One model: its input, where its weights come from, and what its classes are called.

    ``build`` returns the float ``torch.nn.Module`` in evaluation mode; it imports torch when
    called, and only the export worker calls it.  It gets the checkout's path, or None where none
    is given and ``checkout_files`` is empty.

    ``quantized``: lowered to int8 for a Cortex-M.  A model that is not is one portable float
    program for every board.  ``checkout_files`` are relative to the checkout; a model that has any
    is offered only with a checkout, and their content is part of the cache key.  ``modules`` are
    files of this package that the model is made from, for the same purpose.
    """

    name: str
    title: str
    input_sizes: tuple[int, ...]
    build: Callable[[Path | None], Any]
    quantized: bool = True
    labels: tuple[str, ...] = ()
    checkout_files: tuple[str, ...] = ()
    recordings: Callable[[Path | None], tuple[Recording, ...]] = no_recordings
    case_seeds: tuple[int, ...] = (1, 2, 3)
    calibration_seeds: tuple[int, ...] = (101, 102, 103, 104, 105, 106, 107, 108)
    modules: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout:
        """How the Cortex-M example input lies in memory.

        An image must be channels-last: from contiguous ones convolutions stay unlowered, and the
        exporter says nothing.
        """
        return "channels-last" if len(self.input_sizes) == 4 else "contiguous"
