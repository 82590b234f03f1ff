"""The models the bench can export, one small module each."""

from __future__ import annotations

from pathlib import Path

from harness.boards.schema import did_you_mean
from harness.errors import UsageError
from harness.model.registry import (
    add,
    autoencoder,
    ds_cnn,
    keyword_spotting,
    mobilenet_v1_025,
    resnet8,
)
from harness.model.registry.spec import ModelSpec

MODELS: dict[str, ModelSpec] = {
    module.SPEC.name: module.SPEC
    for module in (add, keyword_spotting, ds_cnn, resnet8, mobilenet_v1_025, autoencoder)
}
"""By name, cheapest and best known first."""


def find_model(name: str) -> ModelSpec:
    """The model called ``name``; raises :class:`UsageError` that lists the known ones."""
    if name in MODELS:
        return MODELS[name]
    raise UsageError(
        f"there is no model {name!r}{did_you_mean(name, MODELS)}",
        remedy=f"choose one of {', '.join(MODELS)}",
    )


def checkout_files(spec: ModelSpec, checkout: Path | None) -> tuple[Path, ...]:
    """The files of the checkout that ``spec`` is made from, all of which exist.

    Raises :class:`UsageError` without a checkout, or when one of them is missing.
    """
    if not spec.checkout_files:
        return ()
    if checkout is None:
        raise UsageError(
            f"the model {spec.name!r} is made from files of an ExecuTorch checkout, and none was"
            " given",
            remedy="name one with --executorch DIR or HIL_EXECUTORCH",
        )
    files = tuple(checkout / relative for relative in spec.checkout_files)
    for path in files:
        if not path.is_file():
            raise UsageError(
                f"the model {spec.name!r} needs {str(path)!r}, which does not exist",
                remedy="use a checkout that ships examples/arduino with its checkpoint and"
                " recorded inputs",
            )
    return files
