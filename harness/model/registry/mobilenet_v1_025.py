"""MLPerf Tiny's visual wake words network: an image in, person or not out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.registry.seeded_weights import fill
from harness.model.registry.spec import ModelSpec


def build(_checkout: Path | None) -> Any:
    """The network with seeded weights: it answers nothing useful, but always the same."""
    from executorch.examples.models.mlperf_tiny import MobileNetV1025

    return fill(MobileNetV1025(), SPEC.name)


SPEC = ModelSpec(
    name="mobilenet_v1_025",
    title="MobileNetV1 0.25, MLPerf Tiny visual wake words, seeded weights",
    input_sizes=(1, 3, 96, 96),
    build=build,
    modules=("seeded_weights.py",),
)
