"""Uploads in a row: two firmwares in turn onto one stand-in for the Uno Q, and no false verdict.

``python -m benchmarks.uploads [COUNT]``.  Each upload goes through the real arduino-cli, is asked
for its nonce through the board's back door, and has to answer a line in its own words.  Then the
last firmware is asked for again and again, which must write nothing.  Afterwards nothing may be
left: no process, no board, no lock.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.measure import Home, home, middle, show
from benchmarks.soak import held_locks, processes_of
from harness.arduino.build import Firmware
from harness.arduino.sketch import Sketch, read_sketch
from harness.boards.board import find_board
from harness.clock import Deadline, monotonic_s, pause
from harness.desk.desk import Desk
from harness.desk.remote_station import RemoteStation
from harness.emulator.client import PluggedBoard, plug_in
from harness.errors import HilError
from harness.paths import sketches_dir
from harness.pipeline import Bench, Request

WORDS = ("echo", "back")
"""How each of the two firmwares calls what it sends back."""

UNCHANGED = 20
"""How often a firmware that is there already is asked for at the end."""

ANSWER_S = 20.0
GRACE_S = 3.0


@dataclass
class Tally:
    """What came of the uploads so far."""

    took_s: list[float] = field(default_factory=list)
    unchanged_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    retries: int = 0


def sketch_of(word: str) -> Sketch:
    """The echo sketch that answers with ``word``."""
    source = read_sketch(sketches_dir() / "echo")
    if word == "echo":
        return source
    ready = source.replacing('println("echo ready', f'println("{word} ready')
    return ready.replacing('print("echo: ', f'print("{word}: ')


def start_once(
    bench: Bench,
    plugged: PluggedBoard,
    firmware: Firmware,
    word: str,
    number: int,
    *,
    writes: int = 1,
) -> None:
    """Have the board run ``firmware``, see that it is the one, and how often flash was written.

    Raises :class:`HilError` for what the bench says is wrong, :class:`AssertionError` for what it
    does not.
    """
    before = plugged.status().flash_writes
    session = bench.boot(firmware)
    session.expect_exact(f"{word} ready", timeout_s=ANSWER_S)
    session.write_line(f"upload {number}")
    session.expect_exact(f"{word}: upload {number}", timeout_s=ANSWER_S)
    station = bench.station()
    assert isinstance(station, RemoteStation)
    assert firmware.nonce_address is not None
    found = station.back_door.read_memory(firmware.nonce_address, len(firmware.nonce))
    assert found == firmware.nonce.encode(), f"nonce {found!r} is not {firmware.nonce!r}"
    written = plugged.status().flash_writes - before
    assert written == writes, f"flash was written {written} times, not {writes}"


def strangers(own: Home, plugged: PluggedBoard) -> list[str]:
    """Processes of this measurement beside the board itself, once theirs had time to end."""
    deadline = Deadline.after(GRACE_S)
    while True:
        status = plugged.status()
        mine = tuple(f"process {pid}:" for pid in (status.pid_of_owner, status.pid_of_chip))
        found = [each for each in processes_of(own) if not each.startswith(mine)]
        if not found or deadline.expired:
            return found
        pause(0.05)


@contextmanager
def opened(own: Home, plugged: PluggedBoard, core_version: str | None) -> Iterator[Bench]:
    """A bench for the board that is plugged in; the board is given back afterwards."""
    board = find_board("unoq")
    core = board.core_version(core_version)
    desk = Desk(own.folder / "serial")
    request = Request(board, core, virtual=True, serial_number=plugged.serial_number)
    try:
        yield Bench(request, desk, lambda line: None)  # noqa: ARG005  # What is odd is counted.
    finally:
        desk.close()


def measure(own: Home, count: int, core_version: str | None) -> Tally:
    """Upload ``count`` times; every one is tried, whatever became of those before it."""
    tally = Tally()
    plugged = plug_in(find_board("unoq"), lease_pid=os.getpid(), core_version=core_version)
    try:
        with opened(own, plugged, core_version) as bench:
            made = [bench.firmware(sketch_of(word), with_library=False) for word in WORDS]
            station = bench.station()
            for number in range(1, count + 1):
                at = number % len(WORDS)
                began_s = monotonic_s()
                try:
                    start_once(bench, plugged, made[at], WORDS[at], number)
                except (HilError, AssertionError) as error:
                    tally.wrong.append(f"upload {number}: {error}")
                tally.took_s.append(monotonic_s() - began_s)
                tally.wrong += [f"upload {number} left {x}" for x in strangers(own, plugged)]
                if number % 20 == 0:
                    print(f"  {number} uploads, {len(tally.wrong)} things wrong", flush=True)
            for number in range(count + 1, count + 1 + UNCHANGED):
                at = count % len(WORDS)
                began_s = monotonic_s()
                try:
                    start_once(bench, plugged, made[at], WORDS[at], number, writes=0)
                except (HilError, AssertionError) as error:
                    tally.wrong.append(f"start {number}: {error}")
                tally.unchanged_s.append(monotonic_s() - began_s)
            tally.retries = len(station.retries) + len(station.remarks)
            tally.wrong += [f"retried: {each}" for each in (*station.retries, *station.remarks)]
    finally:
        plugged.unplug()
    tally.wrong += left_behind(own)
    return tally


def left_behind(own: Home) -> list[str]:
    """Processes, locks and boards of this measurement when all of it is over."""
    deadline = Deadline.after(GRACE_S)
    while (found := [*processes_of(own), *_locks_and_boards(own)]) and not deadline.expired:
        pause(0.05)
    return [f"left at the end: {each}" for each in found]


def _locks_and_boards(own: Home) -> Sequence[str]:
    # The cache is shared with other runs of this machine, whose locks are theirs.
    locks = [each for each in held_locks(own) if f"lock {own.run_dir}" in each]
    boards = own.run_dir / "boards"
    there = [each.name for each in boards.iterdir()] if boards.is_dir() else []
    return [*locks, *(f"board {name}" for name in there if not name.endswith(".lock"))]


def main() -> int:
    """Print how the uploads went; 1 when one had a false verdict or something was left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=300)
    parser.add_argument("--core-version", default=None)
    arguments = parser.parse_args()
    with home(cold=False) as own:
        os.environ.update(own.env)
        tally = measure(own, arguments.count, arguments.core_version)
    for line in tally.wrong:
        print(f"  {line}")
    took_s = tally.took_s
    show(
        f"uploads: {arguments.count} in a row onto one stand-in, each asked for its nonce",
        [("fastest", min(took_s)), ("median", middle(took_s)), ("slowest", max(took_s))],
    )
    show(
        f"the same firmware {UNCHANGED} times more: asked for, not written",
        [("median", middle(tally.unchanged_s)), ("slowest", max(tally.unchanged_s))],
    )
    print(f"  retries and remarks: {tally.retries}")
    print(f"  false verdicts, leftovers and retries: {len(tally.wrong)}")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
