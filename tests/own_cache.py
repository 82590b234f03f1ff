"""A cache of a test's own, with the arduino-cli of the set-up in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.paths import cache_dir


def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache in ``folder``, used until the test ends; arduino-cli is not built again."""
    built = cache_dir() / "arduino-cli"
    cache = folder / "cache"
    cache.mkdir()
    if built.is_dir():
        (cache / "arduino-cli").symlink_to(built)
    monkeypatch.setenv("HIL_CACHE", str(cache))
    return cache
