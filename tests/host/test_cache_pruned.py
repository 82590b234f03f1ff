"""A run on the host board removes from the cache what nobody used for long."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.boards.board import Lane
from harness.clock import wall_s
from harness.machine.doctor import why_not
from harness.storage import cache
from harness.storage.prune import DAY_S
from tests.child_run import ChildBench
from tests.own_cache import own_cache

RUN = (sys.executable, "-m", "harness.cli", "test", "host", "-k", "echo")


def test_a_run_prunes_once_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not(Lane.HOST):
        pytest.skip(reason)
    own = own_cache(tmp_path, monkeypatch)
    config = tmp_path / "config.toml"
    config.write_text("keep_unused_days = 7\n", encoding="utf-8")
    bench = ChildBench(tmp_path / "run", tmp_path / "out", {"HIL_CONFIG": str(config)})

    def stale() -> Path:
        place = cache.entry("library", "stale", lambda at: (at / "file").touch())
        at = wall_s() - 8 * DAY_S
        os.utime(place / cache.SEAL, (at, at))
        return place

    place = stale()
    done = bench.run((*RUN, "--out", str(tmp_path / "first")))
    assert done.code == 0, done.shown
    assert "removed from the cache: 1 thing, 0.0 MB, unused for 7 days" in done.shown
    assert not place.exists()
    # The firmware that was just made is there, and is used.
    assert list((own / "firmware").glob(f"*/{cache.SEAL}"))
    place = stale()
    done = bench.run((*RUN, "--out", str(tmp_path / "second")))
    assert done.code == 0, done.shown
    assert "removed from the cache" not in done.shown
    assert place.exists()
