"""``hil autopsy``: what a silent board can still be asked, from behind its port."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from harness.arduino.core_home import find_adb, open_core
from harness.backdoor import adb_errors
from harness.backdoor.adb import AdbDevice, choose, list_boards
from harness.backdoor.back_door import BackDoor
from harness.boards.board import Board, Lane, find_board
from harness.emulator.client import PluggedBoard, plugged_boards
from harness.emulator.witness import BoardWitness
from harness.errors import CapabilityMissing, UsageError
from harness.report.text import printable

DEFAULT_BOARD = "unoq"
"""The one kind of real board that has a back door."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil autopsy`` into the command line."""
    parser = commands.add_parser(
        "autopsy",
        help="say what a silent board can still be asked",
        description="Where does the core stand, and why? Of a board with a Linux side also: is it"
        " up, does its serial route run, which firmware is on the chip. A core is stopped for some"
        " tenths of a second and goes on.",
    )
    parser.add_argument("--board", metavar="BOARD", help="kind of board; for a real one, unoq")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--serial-number", metavar="SN", help="the board, where there are several")
    which.add_argument("--port", metavar="PORT", help="the virtual board that has this port")
    parser.add_argument("--elf", type=Path, metavar="ELF", help="names functions and lines")
    parser.add_argument("--core-version", metavar="VERSION", help="whose adb is used")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print what is known; 0 whatever it is.  Raises :class:`UsageError` for no such board."""
    if arguments.elf is not None and not arguments.elf.is_file():
        raise UsageError(
            f"there is no ELF {str(arguments.elf)!r}",
            remedy="give the .elf file that was built with what runs on the board",
        )
    plugged = find_virtual(plugged_boards(), arguments)
    board = find_board(arguments.board or (plugged.board if plugged else DEFAULT_BOARD))
    for line in _account(board, plugged, arguments):
        print(printable(line, limit=2000))
    return 0


def find_virtual(
    boards: tuple[PluggedBoard, ...], arguments: argparse.Namespace
) -> PluggedBoard | None:
    """The virtual board that is meant; None where it must be a real one.

    Raises :class:`UsageError` when several fit, or none has the port.
    """
    fitting = [
        each
        for each in boards
        if arguments.board in (None, each.board)
        and arguments.serial_number in (None, each.serial_number)
        and arguments.port in (None, each.address)
    ]
    there = ", ".join(f"{each.serial_number} at {each.address}" for each in boards) or "none"
    if len(fitting) > 1:
        raise UsageError(
            f"{len(fitting)} virtual boards are plugged in and none was chosen",
            remedy=f"name one with --serial-number or --port; plugged in now: {there}",
        )
    if not fitting and arguments.port is not None:
        raise UsageError(
            f"no virtual board has port {arguments.port!r}",
            remedy=f"name a real board by --serial-number; virtual boards now: {there}",
        )
    return fitting[0] if fitting else None


def _account(
    board: Board, plugged: PluggedBoard | None, arguments: argparse.Namespace
) -> tuple[str, ...]:
    side = board.linux_side
    if side is None:
        if plugged is None:
            raise UsageError(
                f"no board {board.name!r} is plugged in",
                remedy=f"plug one in with 'hil emulate {board.name}'"
                if board.lane is not Lane.HARDWARE
                else f"board {board.name!r} has no Linux side through which it could be asked",
            )
        return BoardWitness(plugged, lambda: arguments.elf).account()
    program = _find_adb(board, arguments.core_version, virtual=plugged is not None)
    if plugged is not None:
        number = plugged.serial_number
    else:
        number = choose(list_boards(program), arguments.serial_number).serial_number
    return BackDoor(AdbDevice(program, number), side).describe_silence(arguments.elf)


def _find_adb(board: Board, version: str | None, *, virtual: bool) -> Path:
    try:
        return find_adb(open_core(board, board.core_version(version), virtual=virtual))
    except CapabilityMissing as error:
        if virtual:
            raise
        # Asking a board needs adb only, not the core that would bring one.
        found = shutil.which("adb")
        if found is None:
            raise adb_errors.nowhere(error.message) from error
        return Path(found)
