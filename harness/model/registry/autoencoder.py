"""MLPerf Tiny's anomaly detection network: a spectrum in, the same spectrum out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.registry.seeded_weights import fill
from harness.model.registry.spec import ModelSpec


def build(_checkout: Path | None) -> Any:
    """The network with seeded weights: it answers nothing useful, but always the same."""
    from executorch.examples.models.mlperf_tiny import DeepAutoEncoder

    return fill(DeepAutoEncoder(), SPEC.name)


SPEC = ModelSpec(
    name="autoencoder",
    title="Deep autoencoder, MLPerf Tiny anomaly detection, seeded weights",
    input_sizes=(1, 640),
    build=build,
    modules=("seeded_weights.py",),
)
