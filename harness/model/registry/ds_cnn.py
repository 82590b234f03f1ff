"""MLPerf Tiny's keyword spotting network: MFCC frames in, twelve classes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.registry.seeded_weights import fill
from harness.model.registry.spec import ModelSpec


def build(_checkout: Path | None) -> Any:
    """The network with seeded weights: it answers nothing useful, but always the same."""
    from executorch.examples.models.mlperf_tiny import DSCNNKWS

    return fill(DSCNNKWS(), SPEC.name)


SPEC = ModelSpec(
    name="ds_cnn",
    title="DS-CNN, MLPerf Tiny keyword spotting, seeded weights",
    input_sizes=(1, 1, 49, 10),
    build=build,
    modules=("seeded_weights.py",),
)
