"""The process that owns a plugged-in virtual board: ``python -m harness.emulator.daemon``.

Started detached, it says on standard output, in one line of JSON, that the board is ready or why
it is not, and then belongs to nobody's terminal.

For a board of the hardware lane it is a stand-in, not the board: it cannot show time on silicon,
the router's real timing, Zephyr, USB enumeration or power.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from harness import paths
from harness.boards.board import Board, Lane, load_board
from harness.clock import wall_iso
from harness.emulator import folder as folders
from harness.emulator.behaviour import load_behaviour
from harness.emulator.control import ControlServer, refusal
from harness.emulator.folder import OwnerId, PluggedRecord
from harness.emulator.owner import Owner
from harness.emulator.pty import PtyPort
from harness.errors import BenchError, HilError, UsageError
from harness.machine.config import load_config


def serve(
    board: Board,
    *,
    serial_number: str | None,
    lease_pid: int | None,
    on_ready: Callable[[PluggedRecord], None],
    core_version: str | None = None,
    behave: Path | None = None,
) -> None:
    """Plug ``board`` in, call ``on_ready``, and be it until it is unplugged.

    ``core_version`` and ``behave``, the file of its misbehaviour, are a stand-in's.  Raises
    :class:`UsageError` or :class:`BenchError` when it cannot be plugged in.
    """
    stands_in = check_emulated(board, core_version=core_version, behave=behave)
    behaviour = load_behaviour(behave)
    router = load_config().arduino_router if stands_in else None
    lease = None if lease_pid is None else OwnerId.of(lease_pid)
    if lease is not None and not lease.alive:
        raise UsageError(
            f"the lease's process {lease_pid} does not run", remedy="give the id of a running one"
        )
    me = OwnerId.of(os.getpid())
    folder = folders.claim(board.name, serial_number, me)
    with ExitStack() as stack:
        # Hanging up comes last: a client that waits for it then finds everything gone.
        try:
            server = ControlServer.open(folder / "control.sock")
            stack.callback(server.close)
            stack.callback(folders.remove, folder)
            port = PtyPort.open(folder / "tty")
            stack.callback(port.close)
            record = _record(board, folder, me)
            if stands_in:
                version = board.core_version(core_version).version
                record = replace(record, stand_in=True, core_version=version)
            owner = Owner(
                board,
                folder,
                port,
                server,
                lease=lease,
                behaviour=behaviour,
                publish=folders.Publisher(record, folder),
                router=router,
            )
            stack.callback(owner.hang_up)
        except OSError as error:
            folders.remove(folder)
            raise _no_room(board, error) from error

        def announce() -> None:
            try:
                folders.announce(record, folder)
            except OSError as error:
                raise _no_room(board, error) from error
            on_ready(record)

        owner.serve(announce)


def check_emulated(board: Board, *, core_version: str | None, behave: Path | None) -> bool:
    """Whether what plays ``board`` is a stand-in.

    Raises :class:`UsageError` for hardware that nothing can play, and for a core version or a
    behaviour file where there is no stand-in.
    """
    if board.lane is Lane.HARDWARE and (board.emulation is None or board.linux_side is None):
        raise UsageError(
            f"board {board.name!r} is real hardware and cannot be emulated",
            remedy="choose a host or an emulated board; 'hil boards' lists them",
        )
    if board.linux_side is None and (core_version is not None or behave is not None):
        given = "--core-version" if core_version is not None else "--behave"
        raise UsageError(
            f"board {board.name!r} is no stand-in and takes no {given}",
            remedy=f"leave {given} out, or plug in a board that has a [linux_side]",
        )
    board.core_version(core_version)
    return board.linux_side is not None


def _no_room(board: Board, error: OSError) -> BenchError:
    return BenchError(
        f"board {board.name!r} cannot be plugged in: {error.strerror or error}",
        remedy="check free space and the number of ptys (/proc/sys/kernel/pty/max)",
    )


def _record(board: Board, folder: Path, me: OwnerId) -> PluggedRecord:
    return PluggedRecord(
        board=board.name,
        fqbn=board.fqbn,
        address=str(folder / "tty"),
        vid=board.usb.vid,
        pid=board.usb.pid,
        serial_number=folder.name,
        label=board.title,
        pid_of_owner=me.pid,
        owner_started=me.started,
        control=str(folder / "control.sock"),
        started=wall_iso(),
    )


def log_path(serial_number: str) -> Path:
    """Where the owner of a board writes what went wrong with itself; kept after it is gone."""
    return paths.run_dir() / "log" / f"{serial_number}.log"


def _detach(record: PluggedRecord, held: int) -> None:
    """Tell the starter, then let go of its terminal, its output, its process group and ``held``."""
    log = log_path(record.serial_number)
    log.parent.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    print(json.dumps({"ok": True, "serial_number": record.serial_number}), flush=True)
    os.setsid()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    os.close(held)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the owner of one board; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.emulator.daemon")
    parser.add_argument("--board-file", type=Path, required=True)
    parser.add_argument("--serial-number")
    parser.add_argument("--lease-pid", type=int)
    parser.add_argument("--core-version")
    parser.add_argument("--behave", type=Path)
    options = parser.parse_args(argv)
    # The starter reaps its own child and never has to think of the owner again.  The child ends
    # when the owner has spoken or died: a starter that sees it gone takes silence for an answer.
    waits, held = os.pipe()
    if os.fork() > 0:
        os.close(held)
        os.read(waits, 1)
        os._exit(0)
    os.close(waits)
    os.chdir("/")
    try:
        serve(
            load_board(options.board_file),
            serial_number=options.serial_number,
            lease_pid=options.lease_pid,
            on_ready=lambda record: _detach(record, held),
            core_version=options.core_version,
            behave=options.behave,
        )
    except HilError as error:
        print(json.dumps(refusal(error.message, error.remedy, type(error).__name__)))
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
