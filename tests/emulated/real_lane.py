"""The hardware lane with nothing but the board itself missing: an installed core, and its tools.

What ``hil core install`` would have installed is laid out from the stand-in's files in a cache of
its own, so a run without ``--virtual`` finds a core, an adb, a discovery, and a board that is
plugged in: the stand-in, which it takes for the real thing.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.arduino.core_home import open_core, real_home
from harness.boards.board import find_board
from harness.paths import cache_dir
from tests.child_run import HIL, ROOT, Outcome


@dataclass(frozen=True)
class RealLane:
    """``cache`` has the core; ``environment`` makes runs use it and nothing of this user's."""

    cache: Path
    environment: Mapping[str, str]

    @property
    def home(self) -> Path:
        """The installed core's folder."""
        board = find_board("unoq")
        name = real_home(board.platform, board.default_core_version.version).name
        return self.cache / "arduino" / "cores" / name

    @property
    def packages(self) -> Path:
        """What arduino-cli would have installed."""
        return self.home / "data" / "packages" / "arduino"

    def test(self, out: Path, *options: str) -> Outcome:
        """``hil test unoq`` with the cheapest case of the suite."""
        argv = (*HIL, "test", "unoq", "-k", "test_echo", "--out", str(out), *options)
        done = process.run(argv, timeout_s=240, cwd=ROOT, env=self.environment)
        return Outcome(done.returncode, done.stdout + done.stderr, out)


def lay_out(folder: Path, environment: Mapping[str, str]) -> RealLane:
    """Install the core in ``folder``; ``environment`` is what runs have besides."""
    board = find_board("unoq")
    standin = open_core(board, board.default_core_version, virtual=True).home
    cache = folder / "cache"
    for name in ("arduino-cli", "bytecode"):
        (cache_dir() / name).mkdir(parents=True, exist_ok=True)
        (cache / name).parent.mkdir(parents=True, exist_ok=True)
        (cache / name).symlink_to(cache_dir() / name)
    (folder / "locks").mkdir()
    own = {
        "HIL_CACHE": str(cache),
        "HIL_LOCK_DIR": str(folder / "locks"),
        "HIL_CONFIG": str(folder / "config.toml"),
        "HIL_EXECUTORCH": "",
    }
    lane = RealLane(cache, {**environment, **own})
    shutil.copytree(
        standin, lane.home, symlinks=True, ignore=shutil.ignore_patterns("layout.json", "*.yaml")
    )
    return lane
