"""Cache entries between real processes: one builds, the rest wait, a killed one leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.process import end, spawn
from harness.storage.cache import entry

BUILD = """
import os, sys
from pathlib import Path
from harness.storage.cache import entry
from harness.clock import pause

def build(folder):
    (folder / "half").write_text("half")
    with open(sys.argv[1], "a") as log:
        log.write("built\\n")
    print("building", flush=True)
    pause(float(sys.argv[2]))
    (folder / "whole").write_text("whole")

place = entry("thing", "key", build, progress=lambda line: print(line, flush=True))
assert (place / "whole").read_text() == "whole"
print("done", flush=True)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, for its children too."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def start(log: Path, build_s: float) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    return spawn(
        (sys.executable, "-c", BUILD, str(log), str(build_s)),
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def test_several_processes_build_one_entry_once(cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    children = [start(log, 0.3) for _ in range(4)]
    try:
        said = [child.communicate(timeout=60)[0].decode() for child in children]
    finally:
        codes = [end(child) for child in children]
    assert codes == [0, 0, 0, 0]
    assert all(text.endswith("done\n") for text in said)
    assert log.read_text(encoding="utf-8") == "built\n"
    assert (cache / "thing/key/whole").is_file()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_builder_that_is_ended_leaves_no_entry(
    cache: Path, tmp_path: Path, number: signal.Signals
) -> None:
    child = start(tmp_path / "log", 60)
    assert child.stdout is not None
    assert child.stdout.readline() == b"building\n"
    child.send_signal(number)
    child.wait(20)
    end(child)
    assert not (cache / "thing/key").exists()

    def build(folder: Path) -> None:
        (folder / "whole").write_text("whole", encoding="utf-8")

    entry("thing", "key", build)
    left = sorted(each.name for each in (cache / "thing").iterdir())
    assert left == [".key.lock", "key"]
