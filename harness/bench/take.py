"""Taking a board of this machine for a run: found, in use by nobody, fit for use; in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.arduino.port import Port
from harness.bench.find import find_port, follow
from harness.bench.inventory import BenchBoard, Inventory
from harness.bench.owner import Claim, claim_board
from harness.bench.quarantine import require_not_quarantined
from harness.bench.usable import require_usable
from harness.bench.usb import SYSFS
from harness.boards.board import Board


@dataclass(frozen=True)
class TakenBoard:
    """A board that is this run's alone: where it is, what the inventory says of it, its claim."""

    port: Port
    entry: BenchBoard | None
    claim: Claim


@contextmanager
def take_board(
    board: Board,
    look: Callable[[], Sequence[Port]],
    inventory: Inventory,
    *,
    purpose: str,
    address: str | None = None,
    serial_number: str | None = None,
    core_version: str | None = None,
    virtual: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    sysfs: Path = SYSFS,
    state: Path | None = None,
) -> Iterator[TakenBoard]:
    """Own the board that is meant for the length of the block; its port is not opened.

    ``look`` lists the ports; a ``virtual`` board is one that this user plugged in; ``state`` is
    where faults are remembered, the bench's own by default.  Raises :class:`DeviceError` when it is
    not there, is out of use, is not free within the inventory's ``wait_s``, or when another
    program has its port, and :class:`UsageError` when the inventory keeps it for another
    ``core_version`` or on another machine; each with a sentence of its own.
    """
    chosen = inventory.entry(serial_number) if serial_number is not None else None
    if chosen is not None:
        chosen.require_local()
        address = address or chosen.port
    usb = None if virtual else sysfs
    port = find_port(look(), board, address=address, serial_number=serial_number, sysfs=usb)
    number = port.serial_number
    entry = inventory.entry(number)
    if entry is not None and core_version is not None:
        entry.require_core(core_version)
    require_not_quarantined(number, inventory, progress=progress, folder=state)
    with claim_board(
        number, purpose=purpose, progress=progress, timeout_s=inventory.wait_s, virtual=virtual
    ) as claim:
        if claim.waited:
            # What the run before did to it may have given it another port, or put it out of use.
            require_not_quarantined(number, inventory, progress=progress, folder=state)
            port = follow(number, look, was_at=port.address, sysfs=sysfs)
        require_usable(port, progress=progress)
        yield TakenBoard(port, entry, claim)
