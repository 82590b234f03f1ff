"""``hil bench``: a lab's boards, which are there, who has them, which are out of use."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.bench.inventory import REFERENCE, BenchBoard, Inventory, load_inventory
from harness.bench.owner import owner_of
from harness.bench.places import inventory_file
from harness.bench.quarantine import read_state, release, remembered_boards
from harness.bench.usb import SYSFS, UsbDevice, usb_devices
from harness.boards.board import find_board
from harness.boards.schema import did_you_mean
from harness.emulator.client import plugged_boards
from harness.errors import UsageError
from harness.report.text import printable


@dataclass(frozen=True)
class Standing:
    """How one board of the inventory is at this moment; None where there is nothing to say."""

    board: BenchBoard
    address: str | None
    where: str
    held_by: str | None
    quarantine: str | None
    faults: int


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil bench`` into the command line."""
    parser = commands.add_parser(
        "bench",
        help="list a lab's boards: which are there, who has them, which are out of use",
        description=f"The inventory is {inventory_file()} unless another is named. {REFERENCE}.",
    )
    parser.add_argument("--bench", type=Path, metavar="FILE", help="another inventory")
    parser.add_argument("--json", action="store_true", help="as data")
    parser.set_defaults(func=run)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    freed = actions.add_parser("release", help="lift the quarantine of a board")
    freed.add_argument("serial_number", metavar="SN", help="its serial number")
    # Its default would overwrite what was given before the action.
    freed.add_argument("--bench", type=Path, metavar="FILE", default=argparse.SUPPRESS)
    freed.set_defaults(func=run_release)


def run(arguments: argparse.Namespace) -> int:
    """Print the list; always 0, since a board that is away or quarantined is no error here."""
    inventory = load_inventory(arguments.bench)
    devices = usb_devices(SYSFS)
    virtual = {each.serial_number: each.address for each in plugged_boards()}
    boards = [standing_of(each, inventory, devices, virtual, _warn) for each in inventory.boards]
    if arguments.json:
        print(json.dumps([as_data(each) for each in boards], indent=1))
    else:
        print("\n".join(as_lines(boards, inventory)))
    return 0


def run_release(arguments: argparse.Namespace) -> int:
    """Lift the bench's own quarantine of a board; one in the inventory is its owner's to lift."""
    inventory = load_inventory(arguments.bench)
    number: str = arguments.serial_number
    known = sorted({each.serial_number for each in inventory.boards} | set(remembered_boards()))
    if number not in known:
        raise UsageError(
            f"the bench knows no board {number!r}{did_you_mean(number, known)}",
            remedy=f"give one of {', '.join(known)}"
            if known
            else f"list the boards in {inventory.path or inventory_file()}; {REFERENCE}",
        )
    before = release(number, progress=_warn)
    faults = f"{len(before.faults)} faults in a row are forgotten"
    if before.quarantined_since:
        print(f"board {number} is released: quarantined since {before.quarantined_since}; {faults}")
    else:
        print(f"board {number} was not quarantined by the bench; {faults}")
    entry = inventory.entry(number)
    if entry is not None and entry.quarantined is not None:
        raise UsageError(
            f"board {number!r} stays quarantined in {inventory.path}:{entry.line}:"
            f" {entry.quarantined}",
            remedy="take 'quarantined' out of its entry there",
        )
    return 0


def standing_of(
    board: BenchBoard,
    inventory: Inventory,
    devices: Sequence[UsbDevice],
    virtual: Mapping[str, str],
    progress: Callable[[str], None],
) -> Standing:
    """How a board is, from USB, its lock and what the bench remembers; nothing is opened.

    ``virtual`` has the ports of the virtual boards that are plugged in, by serial number.
    """
    state = read_state(board.serial_number, progress=progress)
    quarantine = state.reason and f"since {state.quarantined_since}: {state.reason}"
    if board.quarantined is not None:
        quarantine = f"in {inventory.path}:{board.line}: {board.quarantined}"
    plugged = virtual.get(board.serial_number)
    address, where = (plugged, "virtual") if plugged else _place(board, devices)
    return Standing(
        board=board,
        address=address,
        where=where,
        held_by=owner_of(board.serial_number, virtual=plugged is not None),
        quarantine=quarantine,
        faults=len(state.faults),
    )


def _place(board: BenchBoard, devices: Sequence[UsbDevice]) -> tuple[str | None, str]:
    """Its port, where it has one now, and in a word how it is."""
    if board.url is not None:
        return None, f"elsewhere, at {board.url}"
    if not devices:
        return None, "not known: this machine lists no USB devices"
    usb = find_board(board.kind).usb
    for device in devices:
        if device.serial_number == board.serial_number:
            if (device.identity.vid, device.identity.pid) != (usb.vid, usb.pid):
                return None, f"another kind of board: {device}"
            if not device.ttys:
                return None, "on USB without a serial port"
            return device.ttys[0], "present"
    return None, "absent"


def as_data(standing: Standing) -> dict[str, object]:
    """One board as plain data."""
    board = standing.board
    return {
        "serial_number": board.serial_number,
        "name": board.kind,
        "present": standing.address is not None,
        "where": standing.where,
        "address": standing.address,
        "held_by": standing.held_by,
        "quarantined": standing.quarantine,
        "faults_in_a_row": standing.faults,
        "port": board.port,
        "url": board.url,
        "core_version": board.core_version,
        "reset": [each.value for each in board.reset],
        "tags": list(board.tags),
        "note": board.note,
    }


def as_lines(boards: Sequence[Standing], inventory: Inventory) -> list[str]:
    """The list for a person; what a board or a lock file holds is made safe to show."""
    if not boards:
        if inventory.path is None:
            return [f"no bench inventory: {inventory_file()} is not there; {REFERENCE}"]
        return [f"{inventory.path} lists no board; {REFERENCE}"]
    lines = []
    for each in boards:
        board = each.board
        tags = f"  [{', '.join(board.tags)}]" if board.tags else ""
        where = each.address or each.where
        lines.append(f"{board.serial_number:16} {board.kind:8} {where}{tags}")
        if each.address is not None and each.where != "present":
            lines.append(f"    {each.where}")
        if each.held_by is not None:
            lines.append(f"    held by {each.held_by}")
        if each.quarantine is not None:
            lines.append(f"    quarantined {each.quarantine}")
        elif each.faults:
            lines.append(f"    {each.faults} of {inventory.after_faults} faults in a row")
        if board.note is not None:
            lines.append(f"    {board.note}")
    return [printable(line, limit=1000) for line in lines]


def _warn(line: str) -> None:
    print(f"hil: {printable(line, limit=1000)}", file=sys.stderr)
