"""Where compiled Python goes on a machine that wants none beside its sources."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.machine.bytecode import keep_bytecode


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)


def test_it_goes_into_the_cache_for_this_process_and_its_children(tmp_path: Path) -> None:
    keep_bytecode()
    assert sys.pycache_prefix == os.environ["PYTHONPYCACHEPREFIX"] == str(tmp_path / "bytecode")
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ


def test_a_machine_that_keeps_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    keep_bytecode()
    assert sys.pycache_prefix is None
    assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1"


def test_a_folder_of_the_users_own_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", "/own")
    keep_bytecode()
    assert sys.pycache_prefix == "/own"
    assert sys.dont_write_bytecode
