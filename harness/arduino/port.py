"""Which board a run uses: by USB identity and serial number, never by port name alone."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.arduino.cli import ArduinoCli, board_list_arguments, failure_text, read_json
from harness.boards.board import Board
from harness.errors import DeviceError, ToolError

BOARD_LIST_TIMEOUT_S = 30.0

SERIAL_BRIDGES: Mapping[tuple[str, str], str] = {
    ("0x1a86", "0x7523"): "CH340",
    ("0x1a86", "0x5523"): "CH341",
    ("0x1a86", "0x55d4"): "CH9102",
    ("0x10c4", "0xea60"): "CP210x",
    ("0x0403", "0x6001"): "FT232R",
    ("0x0403", "0x6015"): "FT231X",
    ("0x067b", "0x2303"): "PL2303",
}
"""USB-to-serial chips by vendor and product id (the kernel's drivers in drivers/usb/serial): on
clones and adapters, never on a board that has USB of its own."""

_MOST_NAMED = 8
_MOST_EVIDENCE = 20
_LONGEST_TEXT = 120
_PLAUSIBLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{3,63}")
_PLACEHOLDERS = frozenset({"0123456789abcdef", "0123456789", "123456789", "1234567890"})


@dataclass(frozen=True)
class Port:
    """A port with a board behind it.  ``serial_number`` is what stays when it is renumbered.

    Ids are lower case with ``0x``; what the discovery did not say is empty.
    """

    address: str
    vid: str
    pid: str
    serial_number: str
    label: str
    protocol: str = "serial"

    def __str__(self) -> str:
        identity = f"{self.vid}:{self.pid}" if self.vid or self.pid else "no USB identity"
        number = cut(self.serial_number) or "no serial number"
        return f"{cut(self.address)}  {identity}  {number}"


class BoardAbsent(DeviceError):
    """No port has the board that is meant behind it.

    Cause: it is not plugged in, or it is and has no port.  Remedy: in the error.
    """


def list_ports(cli: ArduinoCli) -> tuple[Port, ...]:
    """Every port that arduino-cli's discoveries see; raises :class:`ToolError` when it cannot."""
    done = cli.run(board_list_arguments(), timeout_s=BOARD_LIST_TIMEOUT_S)
    if not done.ok:
        raise ToolError(
            "arduino-cli could not list the ports",
            remedy="run 'hil doctor'",
            evidence=tuple(failure_text(done).splitlines()[-8:]),
        )
    return read_ports(read_json(done.stdout, command="board list"))


def read_ports(report: Mapping[str, object]) -> tuple[Port, ...]:
    """Ports from the JSON of ``board list``, one an address.

    An entry without an address is passed over; of two with the same address, by two discoveries,
    the one with a USB identity is kept.
    """
    found: dict[str, Port] = {}
    entries = report.get("detected_ports")
    for entry in entries if isinstance(entries, list) else ():
        port = entry.get("port") if isinstance(entry, dict) else None
        if not isinstance(port, dict):
            continue
        address = port.get("address")
        if not isinstance(address, str) or not _can_be_a_path(address):
            continue
        properties = port.get("properties")
        known = properties if isinstance(properties, dict) else {}
        read = Port(
            address=address,
            vid=usb_id(known.get("vid")),
            pid=usb_id(known.get("pid")),
            serial_number=_text(known.get("serialNumber")),
            label=_text(port.get("label")) or address,
            protocol=_text(port.get("protocol")) or "serial",
        )
        if address not in found or (read.vid and not found[address].vid):
            found[address] = read
    return tuple(found.values())


def usb_id(value: object) -> str:
    """A vendor or product id as ``0x`` and four lower-case digits; empty for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFF:
        return f"0x{value:04x}"
    if isinstance(value, str) and re.fullmatch(r"(0[xX])?[0-9A-Fa-f]{1,4}", value.strip()):
        return f"0x{int(value.strip(), 16):04x}"
    return ""


def choose_port(
    ports: Sequence[Port], board: Board, *, address: str | None, serial_number: str | None
) -> Port:
    """The one port that is meant.

    Raises :class:`BoardAbsent` when there is none, :class:`DeviceError` when there are several,
    when the port or the serial number belongs to another board, and for a clone.
    """
    matching = [port for port in ports if is_kind(port, board)]
    if address is not None:
        chosen = _at_address(ports, matching, board, address, serial_number)
    else:
        chosen = [port for port in matching if serial_number in (None, port.serial_number)]
    if len(chosen) == 1:
        _require_plausible(chosen[0], board, ports)
        return chosen[0]
    if chosen:
        raise _several(chosen, board, ports)
    for port in ports:
        if serial_number and port.serial_number == serial_number and not is_kind(port, board):
            raise DeviceError(
                f"serial number {cut(serial_number)!r} belongs to another board than"
                f" {board.name!r} ({identity(board)}): {what_it_is(port)} at {port.address!r}",
                remedy=f"name the kind of board that it is, or {_choice(matching, board)}",
                evidence=seen(ports),
            )
    raise _absent(matching, board, ports, address, serial_number)


def is_kind(port: Port, board: Board) -> bool:
    """Whether a board of this kind is behind the port, by its USB identity; never over a network,
    where some boards show themselves as well.
    """
    usb = (board.usb.vid, board.usb.pid)
    return (port.vid, port.pid) == usb and port.protocol == "serial"


def seen(ports: Iterable[Port]) -> tuple[str, ...]:
    """The ports as evidence: one a line, the first few where there are many."""
    lines = [str(port) for port in ports]
    if len(lines) > _MOST_EVIDENCE:
        more = len(lines) - _MOST_EVIDENCE
        lines = [*lines[:_MOST_EVIDENCE], f"and {more} ports more"]
    return tuple(lines) or ("no port was found at all",)


def identity(board: Board) -> str:
    """USB vendor and product id of a kind of board, for messages."""
    return f"{board.usb.vid}:{board.usb.pid}"


def what_it_is(port: Port) -> str:
    """What a port that was not meant has behind it, as far as USB tells."""
    bridge = SERIAL_BRIDGES.get((port.vid, port.pid))
    if bridge is not None:
        return f"a serial bridge ({bridge}, {port.vid}:{port.pid})"
    if not port.vid:
        return "a port without USB identity"
    return f"{port.vid}:{port.pid}"


def _at_address(
    ports: Sequence[Port],
    matching: Sequence[Port],
    board: Board,
    address: str,
    serial_number: str | None,
) -> list[Port]:
    """The port at ``address``, which may be a link to it as in ``/dev/serial/by-id``, or none."""
    target = os.path.realpath(address)
    for port in ports:
        if port.address != address and os.path.realpath(port.address) != target:
            continue
        if not is_kind(port, board):
            raise DeviceError(
                f"port {address!r} belongs to another board than {board.name!r}"
                f" ({identity(board)}): {what_it_is(port)}",
                remedy=_choice(matching, board),
                evidence=seen(ports),
            )
        if serial_number not in (None, port.serial_number):
            raise DeviceError(
                f"port {address!r} belongs to the board with serial number"
                f" {cut(port.serial_number)!r}, not to {serial_number!r}",
                remedy="leave --hil-port out: a board is found by its serial number at whatever"
                " port it is",
                evidence=seen(ports),
            )
        return [port]
    return []


def _require_plausible(port: Port, board: Board, ports: Sequence[Port]) -> None:
    number = port.serial_number
    if (
        _PLAUSIBLE.fullmatch(number)
        and len(set(number)) > 1
        and number.lower() not in _PLACEHOLDERS
    ):
        return
    state = f"has the serial number {cut(number)!r}" if number else "has no serial number"
    raise DeviceError(
        f"the board at {port.address!r} is an unknown clone of {board.name!r}: it has its USB"
        f" identity ({identity(board)}) and {state}",
        remedy="use a genuine board: uploads and locks go by a serial number of its own; on a"
        " genuine board, unplug it and plug it in again, since the number is read once",
        evidence=seen(ports),
    )


def _several(chosen: Sequence[Port], board: Board, ports: Sequence[Port]) -> DeviceError:
    numbers = sorted(port.serial_number for port in chosen)
    same = sorted(number for number, count in Counter(numbers).items() if count > 1)
    message = f"{len(chosen)} boards match {board.name!r}: {_names(numbers)}"
    if same:
        message += f"; {cut(same[0])!r} is the serial number of more than one"
    return DeviceError(
        message,
        remedy="unplug all but one of those with the same serial number: they are clones"
        if same
        else "choose one with --hil-serial or --hil-port",
        evidence=seen(ports),
    )


def _absent(
    matching: Sequence[Port],
    board: Board,
    ports: Sequence[Port],
    address: str | None,
    serial_number: str | None,
) -> BoardAbsent:
    wanted = [f"board {board.name!r} ({identity(board)})"]
    if address is not None:
        wanted.append(f"at {address!r}")
    if serial_number is not None:
        wanted.append(f"with serial number {cut(serial_number)!r}")
    message = f"no {' '.join(wanted)} is plugged in"
    remedy = _choice(matching, board)
    bridges = [port for port in ports if (port.vid, port.pid) in SERIAL_BRIDGES]
    if not matching and bridges and not _is_virtual(board):
        message += f", but {what_it_is(bridges[0])} is at {bridges[0].address!r}"
        remedy = (
            f"plug in {board.name!r} itself, which has USB of its own: behind a serial bridge is"
            " a clone or another device, and nothing can be uploaded to it"
        )
    return BoardAbsent(message, remedy=remedy, evidence=seen(ports))


def _choice(matching: Sequence[Port], board: Board) -> str:
    """What to do instead: take one of those there are, or plug one in."""
    if matching:
        there = _names(f"{cut(port.serial_number)} at {port.address}" for port in matching)
        return f"choose a board {board.name!r} that is there: {there}"
    if _is_virtual(board):
        return f"plug it in ('hil emulate {board.name}' for a virtual one)"
    stand_in = f"; 'hil emulate {board.name}' gives a stand-in" if board.emulation else ""
    return (
        "plug it in and check the cable, which must carry data;"
        f" 'hil doctor --lane hardware' checks permissions{stand_in}"
    )


def _is_virtual(board: Board) -> bool:
    return board.fqbn.startswith("hil:")


def _names(names: Iterable[str]) -> str:
    every = sorted(cut(name) or "no serial number" for name in names)
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


def cut(text: str) -> str:
    """A text that a device gave, short enough for a sentence."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def _can_be_a_path(text: str) -> bool:
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _text(value: object) -> str:
    """What JSON holds as text; a whole number is one that lost its quotes, nothing else is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else ""
