"""``hil arena``: which arena sizes of a sketch work on a board, bounded below and above."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

from harness.arena.band import Band
from harness.arena.plan import parse_sizes
from harness.arena.record import record, recordable
from harness.arena.survey import Wish, survey
from harness.arena.text import as_json, band_text
from harness.bench.inventory import load_inventory
from harness.boards.board import Board, CoreVersion, Lane, find_board
from harness.desk.desk import Desk
from harness.errors import CapabilityMissing, DutFailure, UsageError, WorldError
from harness.library.checkout import require_checkout
from harness.machine.bytecode import keep_bytecode
from harness.machine.config import load_config
from harness.pipeline import Bench, Request
from harness.report.run_record import claim, default_folder, release
from harness.report.text import diagnosis_text, printable
from harness.report.verdict import exit_code, verdict_of
from harness.storage.cache import write_atomically

RESULT = "arena.json"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil arena`` into the command line."""
    parser = commands.add_parser(
        "arena",
        help="measure which arena sizes of a sketch work, below and above",
        description="Measures the arena band of one of the library's examples with one flash, and"
        " compares it with the board's data. Exit code 1 where it contradicts what was measured.",
    )
    parser.add_argument("board", metavar="BOARD", help="'hil boards' lists them")
    parser.add_argument(
        "--sketch", default="KeywordSpotting", metavar="NAME", help="(default: KeywordSpotting)"
    )
    parser.add_argument("--executorch", metavar="DIR", help="ExecuTorch checkout to test")
    parser.add_argument("--library", metavar="DIR|ZIP", help="an already built Arduino library")
    parser.add_argument(
        "--core-version",
        metavar="V",
        action="append",
        help="version of the board's core; given several times, all are measured",
    )
    parser.add_argument(
        "--virtual", action="store_true", help="a hardware board's stand-in, not the board"
    )
    parser.add_argument(
        "--sizes", metavar="LIST", help="try these instead of the data's, e.g. 28K,40K,29494"
    )
    parser.add_argument(
        "--canary",
        metavar="LIST|never",
        help="build and run the example with a canary at these sizes, one flash each; by default"
        " at those whose globals would reach what the core reserves",
    )
    parser.add_argument("--bench", metavar="FILE", help="inventory of the boards of this bench")
    parser.add_argument("--port", metavar="PORT", help="port of the board, if several match")
    parser.add_argument("--serial-number", metavar="SN", help="serial number of the board")
    parser.add_argument(
        "--record", action="store_true", help="write the result into the board's file"
    )
    parser.add_argument("--json", action="store_true", help="as data")
    parser.add_argument("--out", metavar="DIR", help="folder of the run's evidence")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure every core version in turn; the worst exit code is the command's."""
    keep_bytecode()
    board = find_board(arguments.board)
    versions = [
        board.core_version(each) for each in dict.fromkeys(arguments.core_version or (None,))
    ]
    if not re.fullmatch(r"\w[\w-]*", arguments.sketch):
        raise UsageError(
            f"{arguments.sketch[:80]!r} is not the name of a sketch",
            remedy="name one of the library's examples, e.g. KeywordSpotting",
        )
    wish = Wish(
        sketch=arguments.sketch,
        sizes=parse_sizes(arguments.sizes) if arguments.sizes is not None else (),
        canary=_canary_sizes(arguments.canary),
    )
    out = Path(arguments.out) if arguments.out else default_folder(f"{board.name}-arena")
    bands: list[Band] = []
    worst = 0
    for core in versions:
        folder = (out / core.version if len(versions) > 1 else out).absolute()
        try:
            bands.append(_measure(arguments, board, core, wish, folder))
        except (DutFailure, CapabilityMissing) as error:
            verdict = verdict_of(error, stage="arena")
            assert verdict.diagnosis is not None
            print(diagnosis_text(verdict.kind.value, verdict.diagnosis), file=sys.stderr)
            worst = max(worst, exit_code([verdict.kind]))
    if arguments.json:
        print(json.dumps([as_json(band) for band in bands], indent=1))
    elif bands:
        width = shutil.get_terminal_size((118, 40)).columns
        print(band_text(bands, width=width, colour=sys.stdout.isatty()))
    for band in bands:
        if arguments.record:
            _record(board, band)
    if not arguments.json:
        print(f"evidence: {out}")
    return max([worst, *(band.exit_code for band in bands)])


def _canary_sizes(asked: str | None) -> tuple[int, ...] | None:
    if asked is None:
        return None
    return () if asked == "never" else parse_sizes(asked)


def _record(board: Board, band: Band) -> None:
    said = record(board, band.on.core_version, recordable(band), stand_in=band.on.stand_in)
    print(f"recorded: {printable(said, limit=1000)}", file=sys.stderr)


def _measure(
    arguments: argparse.Namespace, board: Board, core: CoreVersion, wish: Wish, folder: Path
) -> Band:
    request = _request(arguments, board, core)
    inventory = load_inventory(Path(arguments.bench) if arguments.bench else None)
    claim(folder)
    bench = Bench(request, Desk(folder / "serial", _say, inventory), _say)
    try:
        band = survey(bench, wish)
        bench.desk.note_verdict()
    except WorldError as error:
        bench.desk.note_fault(error)
        raise
    finally:
        release(folder)
        bench.desk.close()
    write_atomically(folder / RESULT, json.dumps(as_json(band), indent=1).encode())
    return band


def _request(arguments: argparse.Namespace, board: Board, core: CoreVersion) -> Request:
    if arguments.virtual and (board.lane is not Lane.HARDWARE or board.emulation is None):
        raise UsageError(
            f"board {board.name!r} has no stand-in",
            remedy="leave out --virtual: it is for hardware boards with [emulation] in their file",
        )
    named = arguments.executorch
    executorch = load_config(executorch=Path(named) if named else None).executorch
    library = Path(arguments.library) if arguments.library else None
    if library is None and executorch is not None:
        require_checkout(executorch)
    return Request(
        board=board,
        core_version=core,
        executorch=executorch,
        library=library,
        port=arguments.port,
        serial_number=arguments.serial_number,
        virtual=arguments.virtual,
    )


def _say(line: str) -> None:
    print(f"  ... {printable(line, limit=1000)}", file=sys.stderr, flush=True)
