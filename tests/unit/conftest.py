"""Unit tests know nothing of this machine's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No checkout is configured, whatever this user has."""
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "no-config.toml"))
    monkeypatch.delenv("HIL_EXECUTORCH", raising=False)
