"""``hil preflight``: what is wrong with a model, before anything is compiled or flashed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.boards.board import Board, Lane, find_board
from harness.errors import UsageError
from harness.library.resolve import resolve_library
from harness.machine.config import load_config
from harness.preflight.check import PreflightResult, preflight, unreadable
from harness.preflight.finding import PreflightVerdict
from harness.preflight.model_file import read_model
from harness.preflight.program import NotAProgram
from harness.preflight.registration import Registration, read_registration
from harness.report.verdict import EXIT_FAILED, EXIT_PASSED, EXIT_USAGE

FEEDERS = ("etmodel", "runner", "none")
VERDICTS = ", ".join(verdict.value for verdict in PreflightVerdict)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil preflight`` into the command line."""
    parser = commands.add_parser(
        "preflight",
        help="check a model against a library and a board, without compiling anything",
        epilog=f"verdicts: {VERDICTS}. Exit code 0 only for ok.",
    )
    parser.add_argument("model", type=Path, help="a .pte file, or a model.h made from one")
    parser.add_argument(
        "--library", type=Path, metavar="DIR", help="a built ExecuTorch Arduino library"
    )
    parser.add_argument(
        "--executorch",
        type=Path,
        metavar="DIR",
        help="an ExecuTorch checkout, whose library is assembled; the configured one is used"
        " where neither is given",
    )
    parser.add_argument("--board", metavar="NAME", help="a board of boards/")
    parser.add_argument("--core-version", metavar="VERSION", help="of the board's Arduino core")
    parser.add_argument(
        "--arena-bytes", type=int, metavar="N", help="size of the arena the sketch gives the model"
    )
    parser.add_argument(
        "--feeder",
        choices=FEEDERS,
        default="etmodel",
        help="who gives the model its inputs: the library's ETModel (default), the bench's runner "
        "sketch, or nobody",
    )
    parser.add_argument("--json", action="store_true", help="as data")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Check one model, print the result and return 0 only where nothing is wrong.

    Raises :class:`UsageError` on a wrong argument; with ``--json`` that is data, too.
    """
    try:
        result = _check(arguments)
    except UsageError as error:
        if not arguments.json:
            raise
        print(json.dumps({"verdict": None, "error": error.message, "remedy": error.remedy}))
        return EXIT_USAGE
    if arguments.json:
        print(json.dumps({"model": str(arguments.model), **result.as_json()}, indent=1))
    else:
        _print(arguments.model, result)
    return EXIT_PASSED if result.ok else EXIT_FAILED


def _check(arguments: argparse.Namespace) -> PreflightResult:
    board: Board | None = find_board(arguments.board) if arguments.board else None
    if board is None and arguments.core_version is not None:
        raise UsageError(
            "a core version was given without a board", remedy="name the board with --board"
        )
    core = board.core_version(arguments.core_version) if board else None
    registration, notes = _registration(arguments.library, arguments.executorch)
    try:
        model = read_model(arguments.model)
    except NotAProgram as error:
        return unreadable(error)
    result = preflight(
        model.data,
        registration=registration,
        tier=board.tier if board else None,
        flash_bytes=core.flash_bytes if core else None,
        ram_bytes=core.ram_bytes if core else None,
        arena_bytes=arguments.arena_bytes,
        feeder=arguments.feeder,
    )
    return result.with_notes((*notes, *model.notes))


def _registration(
    library: Path | None, executorch: Path | None
) -> tuple[Registration | None, tuple[str, ...]]:
    """What the named library registers, or that of the named or configured checkout."""
    if library is not None and executorch is not None:
        raise UsageError(
            "a library and a checkout were given", remedy="give either --library or --executorch"
        )
    checkout = None
    if library is None:
        checkout = load_config(executorch=executorch).executorch
        if checkout is None:
            return None, ("not checked against a library: give --library DIR or --executorch DIR",)
        assembled = resolve_library(
            executorch=checkout,
            library=None,
            root_ops=None,
            all_ops=False,
            lane=Lane.EMULATED,
            progress=lambda line: None,  # noqa: ARG005
        )
        assert assembled is not None, "a checkout gives a library"
        library = assembled.path
    return read_registration(library), (f"checked against the library of {checkout or library}",)


def _print(model: Path, result: PreflightResult) -> None:
    out = [f"{_safe(str(model))}: {result.verdict.value}"]
    for finding in result.findings:
        out += [
            f"  {finding.verdict.value}: {_safe(finding.message)}",
            f"    remedy: {_safe(finding.remedy)}",
            f"    on the board: {finding.device}",
        ]
    out += [f"  note: {_safe(note)}" for note in result.notes]
    if result.program is not None and result.ok:
        method = result.program.methods[0]
        tiers = ", ".join(tier.value for tier in result.suits)
        out.append(
            f"  {len(result.program.data)} bytes, {sum(method.planned_bytes)} planned; "
            f"suits {tiers} cores"
        )
    sys.stdout.write("\n".join(out) + "\n")


def _safe(text: str) -> str:
    """One line that a terminal cannot be harmed by; names in a model file are hostile input."""
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)[:2000]
