"""The cache key of an export: the hash of everything that can change what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.model.registry import checkout_files
from harness.model.registry.spec import ModelSpec
from harness.storage.digest import file_digest, parts_digest

_PACKAGE = Path(__file__).resolve().parent

SOURCES = (
    "worker.py",
    "golden.py",
    "header.py",
    "lowering.py",
    "seeded.py",
    "registry/spec.py",
)
"""Modules of the bench that every export is made by."""


def model_key(
    spec: ModelSpec, target: str, checkout: Path | None, versions: Mapping[str, str]
) -> str:
    """A file name that is equal for equal inputs: the model, the target, then a hash.

    Inputs: the bench's own modules, the model's files in the checkout, the installed exporter.
    Where the checkout lies is no part of it.  Raises :class:`UsageError` when a file is missing.
    """
    own = (*SOURCES, f"registry/{spec.name}.py", *(f"registry/{each}" for each in spec.modules))
    digest = parts_digest(
        spec.name,
        target,
        *(file_digest(_PACKAGE / each) for each in own),
        *(file_digest(each) for each in checkout_files(spec, checkout)),
        *(f"{name} {version}" for name, version in sorted(versions.items())),
    )
    return f"{spec.name}-{target}-{digest[:24]}"
