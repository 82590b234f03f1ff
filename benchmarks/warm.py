"""Warm: upstream's three examples with nothing changed, beside the naive loop.

``python -m benchmarks.warm [--all]``.  Naive is plain ``arduino-cli compile`` of each example from
clean, the library as source; one is measured and stands for three unless ``--all`` is given.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.measure import hil, home, judge, middle, show, timed
from harness.arduino.cli import compile_arguments, open_cli
from harness.boards.board import find_board
from harness.library.resolve import Library, resolve_library
from harness.machine.config import load_config

TARGET = 100.0
RUNS = 5
EXAMPLES = ("AddModel", "HelloExecuTorch", "KeywordSpotting")

CASES = "test_examples and not arena"
"""The three examples as they are: the arena cases flash two variants more, which the naive loop
does not compile."""


def library_of(board: str) -> Library:
    """The configured checkout's library, as the suite uses it."""
    found = resolve_library(
        executorch=load_config().executorch,
        library=None,
        root_ops=None,
        all_ops=False,
        lane=find_board(board).lane,
        progress=lambda line: None,  # noqa: ARG005
    )
    if found is None or found.provenance.origin != "checkout":
        sys.exit("this benchmark needs an ExecuTorch checkout: set executorch in the configuration")
    return found


def naive(board: str, example: str, folder: Path) -> float:
    """Seconds for one example compiled from clean by plain arduino-cli."""
    cli = open_cli()
    library = library_of(board).path
    arguments = compile_arguments(
        fqbn=find_board(board).fqbn,
        sketch=library / "examples" / example,
        build_path=folder / example,
        library=library,
        properties={},
        jobs=os.cpu_count() or 2,
    )
    return timed(cli.command_line(arguments), cli.environment())[0]


def main() -> int:
    """Print both times and their ratio; 1 when the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="m33")
    parser.add_argument("--all", action="store_true", help="measure all three naive compiles")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    with home(cold=False) as own:
        argv = hil("test", arguments.board, "-k", CASES, "--out", str(own.folder / "o"))
        timed(argv, own.env)
        ours = [timed(argv, own.env)[0] for _ in range(arguments.runs)]
        measured = EXAMPLES if arguments.all else EXAMPLES[:1]
        each_s = [naive(arguments.board, name, own.folder / "naive") for name in measured]
        ours += [timed(argv, own.env)[0] for _ in range(arguments.runs)]
    naive_s = sum(each_s) * len(EXAMPLES) / len(each_s)
    show(
        f"warm, upstream's three examples on {arguments.board}, pytest start included",
        [
            (f"naive loop, from {len(each_s)} measured", naive_s),
            (f"hil test, median of {len(ours)}", middle(ours)),
            ("hil test, fastest", min(ours)),
        ],
    )
    return judge("naive loop to warm run", naive_s / middle(ours), TARGET, at_most=False)


if __name__ == "__main__":
    sys.exit(main())
