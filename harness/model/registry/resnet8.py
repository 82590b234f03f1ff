"""MLPerf Tiny's image classification network: a CIFAR-10 image in, ten classes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.registry.seeded_weights import fill
from harness.model.registry.spec import ModelSpec


def build(_checkout: Path | None) -> Any:
    """The network with seeded weights: it answers nothing useful, but always the same."""
    from executorch.examples.models.mlperf_tiny import ResNet8

    return fill(ResNet8(), SPEC.name)


SPEC = ModelSpec(
    name="resnet8",
    title="ResNet-8, MLPerf Tiny image classification, seeded weights",
    input_sizes=(1, 3, 32, 32),
    build=build,
    modules=("seeded_weights.py",),
)
