"""Loads the bench's plugin where the package is not installed; see harness/pytest_plugin.py."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A checkout that is not installed has no entry point; say so instead of failing oddly."""
    if not config.pluginmanager.has_plugin("hil"):
        raise pytest.UsageError("the bench is not installed here: run 'make test' first")
