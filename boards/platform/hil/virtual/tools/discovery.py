#!/usr/bin/env python3
"""Finds the virtual boards plugged in: Arduino's pluggable discovery protocol, version 1.

Standard library only and quick to start: arduino-cli waits one second for all discoveries
together.  Run it as ``python3 -S -E discovery.py``.  Protocol:
https://arduino.github.io/arduino-cli/latest/pluggable-discovery-specification/
"""

# Pathlib alone would double the time to start.
# ruff: noqa: PTH110, PTH111, PTH118, PTH123, PTH208

import json
import os
import select
import sys

SETTLE_S = 0.05
"""Seconds between the answer to START_SYNC and the first event: arduino-cli opens its channel for
events only after it has read that answer, and drops what came with it.  Without this, 7 of 25
uploads waited out their discovery timeout of 10 s."""

WATCH_S = 0.2
"""Seconds between two looks while ports are watched (START_SYNC)."""


def boards_folder():
    """Where the bench keeps its plugged-in boards; the same rule as the bench's paths module."""
    root = os.environ.get("HIL_RUN_DIR") or f"/tmp/hil-{os.getuid()}"
    return os.path.join(os.path.expanduser(root), "boards")


def started_ticks(pid):
    """Start time of a process; "" where there is no /proc, None when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        if os.path.exists("/proc/self"):
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass
        return ""
    return None if fields[0] == b"Z" else fields[19].decode()


def plugged_boards():
    """The records of the boards that are ready and whose owner lives, by serial number."""
    folder = boards_folder()
    found = []
    try:
        if os.lstat(folder).st_uid != os.getuid():
            return found
        names = sorted(os.listdir(folder))
    except OSError:
        return found
    for name in names:
        try:
            with open(os.path.join(folder, name, "board.json"), "rb") as file:
                record = json.loads(file.read())
            alive = started_ticks(record["pid_of_owner"]) == record["owner_started"]
            if alive and record.get("port_present", True):
                found.append(record)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def ports():
    """The boards as the protocol's ports, by address."""
    return {
        record["address"]: {
            "address": record["address"],
            "label": f"{record['address']} ({record['serial_number']})",
            "protocol": "serial",
            "protocolLabel": "Serial Port (virtual board)",
            "hardwareId": record["serial_number"],
            "properties": {
                "vid": record["vid"],
                "pid": record["pid"],
                "serialNumber": record["serial_number"],
            },
        }
        for record in plugged_boards()
    }


def send(event, **more):
    """Write one message of the protocol."""
    text = json.dumps(dict(eventType=event, **more))
    os.write(1, text.encode() + b"\n")


class Discovery:
    """The protocol's state: not greeted, idle, started, or watching."""

    def __init__(self):
        self.state = "new"
        self.known = {}
        self.settle = False

    def command(self, line):
        """Answer one line; False when the discovery must end."""
        word = line.split(" ")[0].upper()
        event = word.lower()
        if word == "QUIT":
            send("quit", message="OK")
            return False
        if word == "HELLO":
            if self.state != "new":
                send("hello", error=True, message="already greeted")
            elif line.split(" ")[1:2] == [""] or len(line.split(" ")) < 2:
                send("hello", error=True, message="no protocol version given")
            else:
                self.state = "idle"
                send("hello", protocolVersion=1, message="OK")
        elif word not in ("START", "LIST", "START_SYNC", "STOP"):
            send("command_error", error=True, message=f"unknown command {line[:80]!r}")
        elif self.state == "new":
            send(event, error=True, message="HELLO must come first")
        elif word == "STOP":
            if self.state == "idle":
                send("stop", error=True, message="not started")
            else:
                self.state = "idle"
                self.known = {}
                send("stop", message="OK")
        elif word == "LIST":
            if self.state != "started":
                send("list", error=True, message="START must come first")
            else:
                send("list", ports=list(ports().values()))
        elif self.state != "idle":
            send(event, error=True, message="already started")
        else:
            self.state = "started" if word == "START" else "watching"
            send(event, message="OK")
            self.settle = self.state == "watching"
        return True

    def look(self):
        """While watching, tell which ports came and which went."""
        if self.state != "watching":
            return
        now = ports()
        for address in list(self.known):
            if now.get(address) != self.known[address]:
                send("remove", port={"address": address, "protocol": "serial"})
                del self.known[address]
        for address, port in now.items():
            if address not in self.known:
                send("add", port=port)
                self.known[address] = port


def main():
    """Answer until QUIT or until the other end is gone."""
    discovery = Discovery()
    held = b""
    while True:
        watching = discovery.state == "watching"
        wait_s = SETTLE_S if discovery.settle else WATCH_S
        if select.select([0], [], [], wait_s if watching else None)[0]:
            piece = os.read(0, 4096)
            if not piece:
                return
            held += piece
            while b"\n" in held:
                line, _, held = held.partition(b"\n")
                if not discovery.command(line.decode("utf-8", "replace").strip()):
                    return
        else:
            discovery.settle = False
            discovery.look()


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)
