"""Cold: the whole suite on one emulated board, beside one bare compile of the library's sources.

``python -m benchmarks.cold [BOARD]``.  Needs an ExecuTorch checkout in the configuration.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import bare
from benchmarks.measure import hil, home, judge, processor_s, show, timed, verdicts

TARGET = 1.25


def main() -> int:
    """Print both times and their ratio; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("board", nargs="?", default="m33")
    board = parser.parse_args().board
    with home(cold=True) as own:
        out = own.folder / "out"
        ours_s, _ = timed(hil("test", board, "--out", str(out)), own.env)
        work = own.cache / "build" / board / "library"
        calls = bare.commands(work / "out", work / "ExecuTorch" / "src", own.folder / "bare")
        ours_cpu_s = processor_s()
        bare_s = bare.compile_all(calls, own.folder / "bare")
        bare_cpu_s = processor_s() - ours_cpu_s
        other = [call for call in calls if bare.code(call.built) != bare.code(call.bare_object)]
        show(
            f"cold, everything on {board}: {verdicts(out)}",
            [
                (f"bare: {len(calls)} library sources, {bare.JOBS} at a time", bare_s),
                ("hil test: library, exports, every example and model", ours_s),
                ("processor time of the bare compile", bare_cpu_s),
                ("processor time of hil test", ours_cpu_s),
            ],
        )
    for call in other:
        print(f"  not the code of a bare compile: {call.source}")
    missed = judge("cold run to bare compile", ours_s / bare_s, TARGET, at_most=True)
    return max(missed, int(bool(other)))


if __name__ == "__main__":
    sys.exit(main())
