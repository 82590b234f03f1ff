"""``hil emulate``: plug virtual boards in, see them, unplug them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.boards.board import find_board
from harness.emulator.client import PluggedBoard, find_plugged, plug_in, plugged_boards
from harness.emulator.folder import PluggedRecord
from harness.errors import HilError, UsageError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Subparsers = Any


def add_parser(subparsers: Subparsers) -> None:
    """Add ``emulate`` to the command line; ``func`` runs it and returns the exit code.

    Errors leave as :class:`HilError` for the command line's own handling.
    """
    parser = subparsers.add_parser(
        "emulate",
        help="plug in a virtual board",
        description="Plug in a virtual board: it is there for arduino-cli and for any serial"
        " terminal until it is unplugged.  For hardware with a [linux_side], such as 'unoq', it"
        " plugs in a stand-in: everything above the adb command line and the serial port is as with"
        " the board; time on silicon, the router's real timing, Zephyr, USB enumeration and power"
        " are not.",
    )
    what = parser.add_mutually_exclusive_group()
    parser.add_argument("board", nargs="?", help="kind of board to plug in, e.g. m33")
    parser.add_argument("--serial-number", metavar="SN", help="instead of the first free one")
    parser.add_argument(
        "--foreground", action="store_true", help="stay, and unplug the board at Ctrl-C"
    )
    parser.add_argument(
        "--lease-pid",
        type=int,
        metavar="PID",
        help="unplug the board when this process ends",
    )
    parser.add_argument(
        "--core-version", metavar="V", help="Arduino core of a stand-in, instead of the newest"
    )
    parser.add_argument(
        "--behave",
        type=Path,
        metavar="FILE",
        help="how a stand-in misbehaves: see docs/uno-q-standin.md",
    )
    what.add_argument("--list", action="store_true", help="boards plugged in now")
    what.add_argument("--unplug", metavar="SN", help="take one board away")
    what.add_argument("--all", action="store_true", help="take every board away")
    what.add_argument("--status", metavar="SN", help="how one board is")
    what.add_argument("--reset", metavar="SN", help="start one board's firmware again")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(func=run)


def run(options: argparse.Namespace) -> int:
    """Do what the options say; returns 0, or 1 when a board could not be unplugged."""
    chosen = any((options.list, options.unplug, options.all, options.status, options.reset))
    if chosen and options.board is not None:
        raise UsageError(
            f"board {options.board!r} is given together with an option on boards plugged in",
            remedy="give a kind of board, or one of --list, --unplug, --all, --status, --reset",
        )
    if options.list:
        return _list(as_json=options.json)
    if options.unplug:
        find_plugged(options.unplug).unplug()
        return _say({"unplugged": [options.unplug]}, f"unplugged {options.unplug}", options.json)
    if options.all:
        return _unplug_all(as_json=options.json)
    if options.status:
        return _status(find_plugged(options.status), as_json=options.json)
    if options.reset:
        boots = find_plugged(options.reset).reset()
        return _say({"boots": boots}, f"reset {options.reset}", options.json)
    if options.board is None:
        raise UsageError(
            "no board was named",
            remedy="run 'hil emulate m33', or 'hil emulate --list' for those plugged in",
        )
    return _plug_in(options)


def _plug_in(options: argparse.Namespace) -> int:
    board = find_board(options.board)
    if options.foreground:
        from harness.emulator.daemon import serve

        serve(
            board,
            serial_number=options.serial_number,
            lease_pid=options.lease_pid,
            on_ready=_announcer(options.json),
            core_version=options.core_version,
            behave=options.behave,
        )
        return 0
    plugged = plug_in(
        board,
        serial_number=options.serial_number,
        lease_pid=options.lease_pid,
        core_version=options.core_version,
        behave=options.behave,
    )
    _announcer(options.json)(plugged.record)
    return 0


def _announcer(as_json: bool) -> Callable[[PluggedRecord], None]:
    def announce(record: PluggedRecord) -> None:
        kind = "a stand-in for " if record.stand_in else ""
        text = f"plugged in {record.serial_number} ({kind}{record.fqbn}) at {record.address}"
        _say(asdict(record), text, as_json)

    return announce


def _list(*, as_json: bool) -> int:
    boards = plugged_boards()
    lines = [f"{each.serial_number}  {each.fqbn}  {each.address}" for each in boards]
    text = "\n".join(lines) or "no virtual board is plugged in"
    return _say([asdict(each.record) for each in boards], text, as_json)


def _unplug_all(*, as_json: bool) -> int:
    gone: list[str] = []
    failed: list[str] = []
    for each in plugged_boards():
        try:
            each.unplug()
            gone.append(each.serial_number)
        except HilError as error:
            failed.append(f"{each.serial_number}: {error}")
    text = "\n".join([f"unplugged {', '.join(gone) or 'nothing'}", *failed])
    _say({"unplugged": gone, "failed": failed}, text, as_json)
    return 1 if failed else 0


def _status(plugged: PluggedBoard, *, as_json: bool) -> int:
    status = plugged.status()
    facts = {**asdict(status), "state": status.state.value}
    lines = [f"{key}: {value}" for key, value in facts.items() if key != "ending"]
    if status.ending is not None:
        lines += [f"ending: {status.ending.told('it')}", *status.ending.stderr]
    return _say(facts, "\n".join(lines), as_json)


def _say(facts: object, text: str, as_json: bool) -> int:
    print(json.dumps(facts) if as_json else text, flush=True)
    return 0
