"""Who else has a port open, as far as ``/proc`` tells; empty where there is no ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")

MODEM_MANAGER = "ModemManager"
"""Command name of the service that sends modem commands to every new serial port for some ten
seconds (rusefi 4359)."""


@dataclass(frozen=True)
class Holder:
    """A process that has the port open; ``name`` is its command name."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


def port_holders(address: str) -> tuple[Holder, ...]:
    """Other processes that have the terminal ``address`` open, lowest process id first.

    The process that plays the board is not counted: it is known by holding the other end of the
    pty.  Processes of other users are invisible unless the caller is root.  What is not named as a
    terminal has no holders: everybody has ``/dev/null`` open.
    """
    target = os.path.realpath(address)
    found: list[Holder] = []
    if not target.startswith(("/dev/tty", "/dev/pts/")):
        return ()
    for pid in _process_ids():
        if pid == os.getpid():
            continue
        if target in _open_files(pid) and not _plays_the_board(pid, target):
            found.append(Holder(pid, _name(pid)))
    return tuple(found)


def modem_manager_runs() -> bool:
    """Whether the service that probes new ports runs, whoever started it."""
    return any(_name(pid) == MODEM_MANAGER for pid in _process_ids())


def _process_ids() -> Iterator[int]:
    with suppress(OSError):
        yield from sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def _open_files(pid: int) -> set[str]:
    names: set[str] = set()
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                names.add(str(entry.readlink()))
    return names


def _plays_the_board(pid: int, target: str) -> bool:
    """Whether ``pid`` holds the master of the pty ``/dev/pts/<index>``."""
    index = target.removeprefix("/dev/pts/")
    return index.isdigit() and index in _pty_masters(pid)


def _pty_masters(pid: int) -> set[str]:
    found: set[str] = set()
    folder = _PROC / str(pid) / "fdinfo"
    with suppress(OSError):
        for entry in folder.iterdir():
            with suppress(OSError):
                for line in entry.read_text(encoding="ascii", errors="replace").splitlines():
                    key, _, value = line.partition(":")
                    if key == "tty-index":
                        found.add(value.strip())
    return found


def _name(pid: int) -> str:
    with suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return "unknown"
