"""Arena: a band with one flash, beside one flash for each size.

``python -m benchmarks.arena [--board m33] [--runs N]``.  Beside it, each size is built into the
example, flashed and run to its answer or its failure, as the sketch's author would do it; builds
are warm on both sides, so that what is compared is flashing and booting.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.measure import home, judge, middle, show
from harness.arena.plan import KIB
from harness.arena.pool import find_pool, with_pool
from harness.arena.survey import Wish, survey
from harness.boards.board import find_board
from harness.clock import monotonic_s
from harness.desk.desk import Desk
from harness.machine.config import load_config
from harness.pipeline import Bench, Request

TARGET = 3.0
SKETCH = "KeywordSpotting"
SIZES = tuple(size * KIB for size in (28, 29, 30, 32, 36, 40, 44, 48))
ENDED = ["=== DONE ===", r"failed \(0x[0-9a-f]+\)"]
ANSWER_TIMEOUT_S = 60.0


def bench_of(board: str, folder: Path) -> Bench:
    """A bench with the configured checkout and a board of its own."""
    checkout = load_config().executorch
    if checkout is None:
        sys.exit("this benchmark needs an ExecuTorch checkout: set executorch in the configuration")
    found = find_board(board)
    request = Request(board=found, core_version=found.default_core_version, executorch=checkout)
    return Bench(request, Desk(folder), lambda line: None)  # noqa: ARG005


def one_flash(board: str, folder: Path) -> tuple[float, list[bool | None]]:
    """Seconds for the band through the runner, and whether each size loaded."""
    bench = bench_of(board, folder)
    try:
        bench.linked()
        bench.station()
        began_s = monotonic_s()
        band = survey(bench, Wish(SKETCH, SIZES, ()))
        took_s = monotonic_s() - began_s
    finally:
        bench.desk.close()
    if band.flashes != 1:
        sys.exit(f"the band took {band.flashes} flashes, not one")
    return took_s, [row.loads for row in band.rows]


def one_flash_a_size(board: str, folder: Path) -> tuple[float, list[bool | None]]:
    """Seconds for the same sizes, each built into the example, flashed and run."""
    bench = bench_of(board, folder)
    try:
        bench.linked()
        bench.station()
        example = bench.example(SKETCH)
        pool = find_pool(example)
        loads: list[bool | None] = []
        began_s = monotonic_s()
        for size in SIZES:
            session = bench.boot(bench.firmware(with_pool(example, pool, size)))
            loads.append(session.expect(ENDED, timeout_s=ANSWER_TIMEOUT_S) == 0)
        return monotonic_s() - began_s, loads
    finally:
        bench.desk.close()


def main() -> int:
    """Print both times and their ratio; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="m33")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with home(cold=False) as own:
        os.environ["HIL_RUN_DIR"] = str(own.run_dir)
        folders = (own.folder / f"run{number}" for number in range(10_000))
        # Everything compiled once, and whatever a first call costs paid.
        one_flash(arguments.board, next(folders))
        one_flash_a_size(arguments.board, next(folders))
        ours = [one_flash(arguments.board, next(folders)) for _ in range(arguments.runs)]
        theirs = [one_flash_a_size(arguments.board, next(folders)) for _ in range(arguments.runs)]
        # Again afterwards, since the machine's load moves.
        ours += [one_flash(arguments.board, next(folders)) for _ in range(arguments.runs)]
    outcomes = {tuple(loads) for _, loads in ours + theirs}
    if len(outcomes) != 1:
        sys.exit(f"the two ways do not agree on what works: {sorted(map(str, outcomes))}")
    ours_s, theirs_s = middle([each for each, _ in ours]), middle([each for each, _ in theirs])
    show(
        f"arena band of {SKETCH} on {arguments.board}, {len(SIZES)} sizes, everything compiled",
        [
            (f"one flash a size, median of {len(theirs)}", theirs_s),
            (f"one flash, smallest size found too, median of {len(ours)}", ours_s),
        ],
    )
    return judge("a flash a size to one flash", theirs_s / ours_s, TARGET, at_most=False)


if __name__ == "__main__":
    sys.exit(main())
