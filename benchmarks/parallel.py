"""Parallel: ten sessions of the cheapest case at once, on one cache that begins empty.

``python -m benchmarks.parallel [COUNT]``.  All compile the same sketch first, so they meet at the
cache's locks.  Beside it: the same sessions one after the other, each with the cache warm.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import Home, hil, home, judge, show, timed, verdicts
from benchmarks.soak import leftovers
from harness import process
from harness.clock import monotonic_s

DEFAULT = 10
TARGET = 1.5
"""Of the time one after the other: on two processors it should be less; waiting costs a little."""


def together(own: Home, argvs: Sequence[Sequence[str]], logs: Path) -> tuple[float, list[int]]:
    """Seconds until the last of the sessions ended, and their exit codes."""
    logs.mkdir()
    began_s = monotonic_s()
    children: list[process.Process] = []
    codes: list[int] = []
    try:
        for number, argv in enumerate(argvs):
            with (logs / f"{number}.log").open("wb") as log:
                children.append(
                    process.spawn(argv, env=own.env, stdout=log.fileno(), stderr=log.fileno())
                )
        codes = [child.wait() for child in children]
    finally:
        for child in children:
            process.end(child)
    return monotonic_s() - began_s, codes


def main() -> int:
    """Print both times; 1 when a session was disturbed, something was left, or it took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=DEFAULT)
    parser.add_argument("--board", default="m33")
    arguments = parser.parse_args()
    wrong: list[str] = []
    with home(cold=True) as own:
        outs = [own.folder / f"p{number}" for number in range(arguments.count)]
        argvs = [hil("test", arguments.board, "-k", "test_echo", "--out", str(out)) for out in outs]
        at_once_s, codes = together(own, argvs, own.folder / "logs")
        for number, (out, code) in enumerate(zip(outs, codes, strict=True)):
            said = verdicts(out) if (out / "run.json").is_file() else {}
            if code != 0 or said != {"passed": 1}:
                wrong.append(f"session {number}: exit code {code}, {said}")
                log = (own.folder / "logs" / f"{number}.log").read_text(errors="replace")
                wrong += [f"  | {line}" for line in log.splitlines()[-20:]]
        entries = [each.name for each in (own.cache / "firmware").iterdir() if each.is_dir()]
        whole = [name for name in entries if not name.startswith(".")]
        if len(entries) != 1 or whole != entries:
            wrong.append(f"the cache holds {entries}, not one whole firmware")
        wrong += [f"left {each}" for each in leftovers(own)]
        in_turn_s = sum(timed(argv, own.env)[0] for argv in argvs)
    show(
        f"{arguments.count} sessions of the echo case on {arguments.board}",
        [
            ("one after the other, cache warm", in_turn_s),
            ("all at once, cache empty at the start", at_once_s),
        ],
    )
    for line in wrong:
        print(f"  {line}")
    print(f"  disturbed sessions and leftovers: {len(wrong)}")
    slow = judge("at once to one after the other", at_once_s / in_turn_s, TARGET, at_most=True)
    return 1 if wrong else slow


if __name__ == "__main__":
    sys.exit(main())
