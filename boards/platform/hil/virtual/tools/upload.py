#!/usr/bin/env python3
"""Flashes a plugged-in virtual board through its control socket; called by arduino-cli upload.

Standard library only.  Run it as ``python3 -S -E upload.py --address PORT --elf FILE``.
"""

# Pathlib alone would double the time to start.
# ruff: noqa: PTH100, PTH120

import argparse
import json
import os
import socket
import sys

# Isolated mode (-I) leaves this folder out; bytecode files have no place in an Arduino platform.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import discovery  # noqa: E402

TIMEOUT_S = 60.0


class UploadError(Exception):
    """Why nothing was flashed, and what to do."""


def find(address, serial_number):
    """The board at this port; the serial number decides when the port has another name."""
    # A discovery that answered too late leaves the property's name where its value belongs.
    if serial_number.startswith("{"):
        serial_number = ""
    boards = discovery.plugged_boards()
    there = ", ".join(each["serial_number"] for each in boards) or "none"
    remedy = f"plug one in with 'hil emulate'; plugged in now: {there}"
    for each in boards:
        same = each["address"] == address or os.path.realpath(each["address"]) == address
        if same or (not address and each["serial_number"] == serial_number):
            if serial_number and each["serial_number"] != serial_number:
                now = each["serial_number"]
                raise UploadError(
                    f"port {address!r} is board {now!r} now, not {serial_number!r}; {remedy}"
                )
            return each
    where = address or serial_number
    raise UploadError(f"no virtual board is plugged in at {where!r}; {remedy}")


def flash(board, elf):
    """Ask the board's owner to take the firmware over; returns its reply."""
    name = board["serial_number"]
    request = {"op": "flash", "elf": os.path.abspath(elf)}
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(TIMEOUT_S)
    held = b""
    try:
        client.connect(board["control"])
        client.sendall(json.dumps(request).encode() + b"\n")
        while not held.endswith(b"\n"):
            piece = client.recv(65536)
            if not piece:
                raise UploadError(f"board {name!r} was unplugged during the upload")
            held += piece
        reply = json.loads(held)
    except (OSError, ValueError) as error:
        raise UploadError(f"board {name!r} does not answer: {error}") from error
    finally:
        client.close()
    if not reply.get("ok"):
        raise UploadError(f"board {name!r}: {reply.get('error')}; {reply.get('remedy')}")
    return reply


def main():
    """Flash as the command line says; exit code 0, or 1 with one sentence on standard error."""
    parser = argparse.ArgumentParser(description="flash a virtual board")
    parser.add_argument("--address", default="", help="the board's port")
    parser.add_argument("--serial", default="", help="the board's serial number")
    parser.add_argument("--elf", required=True, help="the linked sketch")
    parser.add_argument("--bin", default="", help="accepted and not used")
    parser.add_argument("--verbose", action="store_true", help="say who owns the board")
    options = parser.parse_args()
    try:
        board = find(options.address, options.serial)
        if options.verbose:
            print(f"board {board['serial_number']!r} is owned by process {board['pid_of_owner']}")
        reply = flash(board, options.elf)
    except UploadError as error:
        print(f"upload failed: {error}", file=sys.stderr)
        return 1
    print(f"flashed {reply['bytes']} bytes to {board['serial_number']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
