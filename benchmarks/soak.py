"""Soak: the cheapest emulated case again and again: no false verdict, no leftovers.

``python -m benchmarks.soak [COUNT]``.  After every run nothing of it may be left: no process, no
plugged-in board, no held lock.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Home, hil, home, middle, show, timed, verdicts
from harness.clock import Deadline, pause
from harness.storage.lock import read_holder

GRACE_S = 3.0


def processes_of(own: Home) -> Iterator[str]:
    """Processes that were started with this measurement's runtime folder and still live."""
    mark = f"HIL_RUN_DIR={own.run_dir}".encode()
    for each in Path("/proc").iterdir():
        if not each.name.isdigit() or int(each.name) == os.getpid():
            continue
        try:
            if mark in (each / "environ").read_bytes().split(b"\0"):
                command = (each / "cmdline").read_bytes().replace(b"\0", b" ")
                yield f"process {each.name}: {command.decode('utf-8', 'replace')[:120]}"
        except OSError:
            continue


def held_locks(own: Home) -> Iterator[str]:
    """Locks of the cache and the runtime folder that somebody holds."""
    for root in (own.cache, own.run_dir):
        for path in root.rglob("*.lock"):
            with path.open("rb") as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield f"lock {path}: {read_holder(path)}"


def leftovers(own: Home) -> list[str]:
    """Everything that a run should not have left, once what is about to end has had its time.

    arduino-cli's discoveries are told to quit and not waited for.
    """
    deadline = Deadline.after(GRACE_S)
    while (found := _left_now(own)) and not deadline.expired:
        pause(0.05)
    return found


def _left_now(own: Home) -> list[str]:
    boards = own.run_dir / "boards"
    found = [f"board {each.name}" for each in boards.iterdir()] if boards.is_dir() else []
    found = [each for each in found if not each.endswith(".lock")]
    return [*found, *processes_of(own), *held_locks(own)]


def main() -> int:
    """Print how the runs went; 1 when one had a false verdict or left something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=200)
    parser.add_argument("--board", default="m33")
    arguments = parser.parse_args()
    wrong = 0
    took: list[float] = []
    with home(cold=True) as own:
        for number in range(1, arguments.count + 1):
            out = own.folder / f"o{number}"
            argv = hil("test", arguments.board, "-k", "test_echo", "--out", str(out))
            seconds, done = timed(argv, own.env, codes=range(256))
            took.append(seconds)
            said = verdicts(out) if (out / "run.json").is_file() else {}
            complaints = [f"left {each}" for each in leftovers(own)]
            if done.returncode != 0 or said != {"passed": 1}:
                complaints += [f"exit code {done.returncode}, {said}", *done.tail(20)]
            wrong += bool(complaints)
            for line in complaints:
                print(f"  run {number}: {line}", flush=True)
            if number % 20 == 0:
                print(f"  {number} runs, {wrong} with a false verdict or leftovers", flush=True)
    show(
        f"soak: {arguments.count} runs of the echo case on {arguments.board}",
        [("fastest", min(took)), ("median", middle(took)), ("slowest", max(took))],
    )
    print(f"  runs with a false verdict or leftovers: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
