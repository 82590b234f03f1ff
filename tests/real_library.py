"""The Arduino library of the user's own ExecuTorch checkout, for tests that need the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.board import Lane
from harness.library.resolve import Library, resolve_library
from harness.machine.config import how_to_configure, load_config


def configured_checkout() -> Path:
    """The checkout that the user's configuration names; skips where it names none."""
    found = load_config().executorch
    if found is None:
        pytest.skip(f"no ExecuTorch checkout: {how_to_configure()}")
    return found


def library_of(checkout: Path) -> Library:
    """The library that the checkout's own script builds, from the cache where nothing changed."""
    found = resolve_library(
        executorch=checkout,
        library=None,
        root_ops=None,
        all_ops=False,
        lane=Lane.EMULATED,
        progress=lambda line: None,  # noqa: ARG005
    )
    assert found is not None
    return found
