"""``x + 1`` on three floats: the program that upstream's AddModel and HelloExecuTorch carry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.model.registry.spec import ModelSpec


def build(_checkout: Path | None) -> Any:
    """The module; it has no weights."""
    import torch

    class Add(torch.nn.Module):  # type: ignore[misc]  # torch is not typed for us
        def forward(self, x: Any) -> Any:
            # A float, not an int: with an int the exporter adds a conversion kernel.
            return x + 1.0

    return Add().eval()


SPEC = ModelSpec(
    name="add",
    title="AddModel: x + 1",
    input_sizes=(3,),
    build=build,
    quantized=False,
)
