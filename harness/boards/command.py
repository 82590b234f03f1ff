"""``hil boards``: every board, what it is, and whether it can run here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from harness.boards.board import Board, Lane, load_boards
from harness.machine.doctor import why_not


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil boards`` into the command line."""
    parser = commands.add_parser("boards", help="list the boards and whether each can run here")
    parser.add_argument("--json", action="store_true", help="as data")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the list; always 0, since a board that cannot run here is no error."""
    boards = load_boards()
    reasons = {lane: why_not(lane) for lane in Lane}
    if arguments.json:
        print(json.dumps([_data(board, reasons) for board in boards], indent=1))
        return 0
    for board in boards:
        versions = ", ".join(each.version for each in board.core_versions)
        print(
            f"{board.name:6} {board.lane.value:9} {board.core:12} {board.tier.value:9} {versions}"
        )
        print(f"       {board.title}; {board.fqbn}")
        if reason := reasons[board.lane]:
            print(f"       cannot run here: {reason}")
        if _has_stand_in(board):
            missing = reasons[Lane.EMULATED]
            told = f"cannot run here: {missing}" if missing else f"hil test {board.name} --virtual"
            print(f"       its stand-in: {told}")
    return 0


def _has_stand_in(board: Board) -> bool:
    return board.lane is Lane.HARDWARE and board.emulation is not None


def _data(board: Board, reasons: Mapping[Lane, str | None]) -> dict[str, object]:
    reason = reasons[board.lane]
    return {
        "name": board.name,
        "title": board.title,
        "lane": board.lane.value,
        "fqbn": board.fqbn,
        "core": board.core,
        "tier": board.tier.value,
        "core_versions": [each.version for each in board.core_versions],
        "runs_here": reason is None,
        "why_not": reason,
        "stand_in_runs_here": _has_stand_in(board) and reasons[Lane.EMULATED] is None,
    }
