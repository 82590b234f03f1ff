"""Which board a run uses: by USB identity and serial number, never by port name alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.arduino.cli import ArduinoCli, board_list_arguments, failure_text, read_json
from harness.boards.board import Board
from harness.errors import DeviceError, ToolError

BOARD_LIST_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Port:
    """A port with a board behind it.  ``serial_number`` is what stays when it is renumbered."""

    address: str
    vid: str
    pid: str
    serial_number: str
    label: str


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


def read_ports(report: dict[str, object]) -> tuple[Port, ...]:
    """Ports from the JSON of ``board list``; an entry without an address is passed over."""
    found: list[Port] = []
    entries = report.get("detected_ports")
    for entry in entries if isinstance(entries, list) else ():
        port = entry.get("port") if isinstance(entry, dict) else None
        if not isinstance(port, dict) or not isinstance(port.get("address"), str):
            continue
        properties = port.get("properties")
        known = properties if isinstance(properties, dict) else {}
        found.append(
            Port(
                address=port["address"],
                vid=str(known.get("vid", "")).lower(),
                pid=str(known.get("pid", "")).lower(),
                serial_number=str(known.get("serialNumber", "")),
                label=str(port.get("label", port["address"])),
            )
        )
    return tuple(found)


def choose_port(
    ports: Sequence[Port], board: Board, *, address: str | None, serial_number: str | None
) -> Port:
    """The one port that is meant; raises :class:`DeviceError` when there is none or several."""
    matching = [port for port in ports if (port.vid, port.pid) == (board.usb.vid, board.usb.pid)]
    chosen = [
        port
        for port in (ports if address is not None else matching)
        if address in (None, port.address) and serial_number in (None, port.serial_number)
    ]
    seen = tuple(
        f"{port.address}  {port.vid}:{port.pid}  {port.serial_number or 'no serial number'}"
        for port in ports
    )
    if len(chosen) == 1:
        return chosen[0]
    if len(chosen) > 1:
        raise DeviceError(
            f"{len(chosen)} boards match {board.name!r}:"
            f" {', '.join(sorted(port.serial_number for port in chosen))}",
            remedy="choose one with --hil-serial or --hil-port",
            evidence=seen,
        )
    wanted = [f"board {board.name!r} ({board.usb.vid}:{board.usb.pid})"]
    if address is not None:
        wanted.append(f"at {address!r}")
    if serial_number is not None:
        wanted.append(f"with serial number {serial_number!r}")
    raise DeviceError(
        f"no {' '.join(wanted)} is plugged in",
        remedy=f"plug it in ('hil emulate {board.name}' for a virtual one)"
        if board.fqbn.startswith("hil:")
        else "plug it in and check the cable; 'hil doctor --lane hardware' checks permissions",
        evidence=seen or ("no port was found at all",),
    )
