"""Versions of everything that decides what an export gives, read without importing any of it."""

from __future__ import annotations

import importlib.metadata
import platform
from functools import cache
from types import MappingProxyType

from harness.errors import CapabilityMissing
from harness.library.provenance import read_exporter

PACKAGES = ("executorch", "torch", "torchao", "tosa-tools")
"""Each changes the exported bytes, or may: torch does within one executorch version."""


@cache
def exporter_versions() -> MappingProxyType[str, str]:
    """Package versions, the wheel's git revision and the Python version, by name.

    Raises :class:`CapabilityMissing` when a package is not installed in this interpreter.  Read
    once a process: what is installed does not change under it.
    """
    found = {name: _version(name) for name in PACKAGES}
    found["executorch git"] = read_exporter().git_revision
    found["python"] = platform.python_version()
    return MappingProxyType(found)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise CapabilityMissing(
            f"the Python package {name!r} is not installed, so no model can be exported",
            remedy="install the bench with its dependencies ('make test' does), or add that"
            " package",
        ) from None
