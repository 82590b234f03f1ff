"""Boards of one kind that several runs want, and the hardware lane up to the board itself.

Two runs wait for each other and say for whom; two boards have nothing to do with each other; what
is not installed, or wrong, or somebody else's is one sentence.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import process
from harness.boards.board import find_board
from harness.report.verdict import EXIT_FAULT, EXIT_NOTHING_RAN, EXIT_PASSED
from tests.child_run import ROOT, Outcome, wait_until
from tests.emulated.direct import need
from tests.emulated.real_lane import RealLane, lay_out
from tests.emulated.unoq_board import OnBoard, plugged_in


@pytest.fixture(scope="module")
def run_dir() -> Iterator[Path]:
    """A short runtime folder, since sockets lie in it."""
    need(find_board("unoq"))
    with TemporaryDirectory(prefix="hil") as folder:
        yield Path(folder)


@pytest.fixture
def board(run_dir: Path, tmp_path: Path) -> Iterator[OnBoard]:
    """A stand-in that stays plugged in."""
    with plugged_in(run_dir, tmp_path) as on:
        yield on
    on.child.require_clean()


def finished(run: process.Process, log: Path, out: Path) -> Outcome:
    """What a run that was started left, once it is over."""
    wait_until(lambda: run.poll() is not None, 120)
    return Outcome(run.wait(), log.read_text(encoding="utf-8", errors="replace"), out)


def require_one_passed(run: Outcome) -> None:
    assert run.code == EXIT_PASSED, run.shown
    assert [each["verdict"] for each in run.record["cases"]] == ["passed"]
    assert run.record["cases"][0]["retries"] == []
    assert "Traceback" not in run.shown


def require_symptom(run: Outcome, kind: str, stage: str, sentence: str) -> dict[str, object]:
    (case,) = run.record["cases"]
    diagnosis: dict[str, object] = case["diagnosis"]
    assert case["verdict"] == kind, run.shown
    assert diagnosis["stage"] == stage
    assert re.match(sentence, str(diagnosis["symptom"])), diagnosis["symptom"]
    assert diagnosis["remedy"]
    assert "Traceback" not in run.shown
    return diagnosis


def test_two_runs_on_one_board_wait_for_each_other(board: OnBoard, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    logs, outs = [tmp_path / f"{n}.txt" for n in "ab"], [tmp_path / n for n in "ab"]
    extra = {"FAULT_MARK": str(mark)}
    one = board.start(board.case_argv("test_holds", outs[0]), logs[0], extra)
    two = None
    try:
        wait_until(lambda: mark.exists() or one.poll() is not None, 60)
        assert one.poll() is None, logs[0].read_text()
        # A third one does not wait for ever, and says who has it.
        log, out = tmp_path / "c.txt", tmp_path / "c"
        bench = tmp_path / "bench.toml"
        bench.write_text("wait_s = 1\n", encoding="utf-8")
        impatient = (*board.case_argv("test_echo", out), f"--hil-bench={bench}")
        third = finished(board.start(impatient, log), log, out)
        assert third.code == EXIT_FAULT
        taken = require_symptom(
            third, "fault", "board",
            rf"board 'HILUNOQ0001' was not free within 1 s: held by process {one.pid} \(.*\),"
            r" testing 'unoq', since 2",
        )  # fmt: skip
        assert f"process {one.pid}" in str(taken["remedy"])
        two = board.start(board.suite_argv(outs[1]), logs[1])
        waits = f"board HILUNOQ0001: waiting for process {one.pid} ("
        wait_until(lambda: waits in logs[1].read_text(errors="replace"), 60)
        mark.with_suffix(".go").touch()
        require_one_passed(finished(one, logs[0], outs[0]))
        second = finished(two, logs[1], outs[1])
    finally:
        for run in (one, two):
            if run is not None:
                process.end(run)
    require_one_passed(second)
    assert re.search(r"board HILUNOQ0001: free after \d+ s", second.shown)
    assert second.record["warnings"] == []
    # The first one had put it there and gave it back, so it is believed.
    assert board.plugged.status().flash_writes == 1
    assert not board.held_by()
    assert board.strangers() == []


def test_two_boards_of_one_kind_at_once_have_nothing_to_do_with_each_other(
    board: OnBoard, run_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    with plugged_in(run_dir, tmp_path / "other") as other:
        assert other.plugged.serial_number != board.plugged.serial_number
        runs = []
        # Records on one, lines on the other: neither may ever see a byte of the other's.
        for on, case in ((board, "test_records"), (other, "test_echo")):
            log = on.folder / "log.txt"
            runs.append((on, on.start(on.case_argv(case, on.folder / "run"), log), log))
        try:
            done = [finished(run, log, on.folder / "run") for on, run, log in runs]
        finally:
            for _, run, _ in runs:
                process.end(run)
        for each in done:
            require_one_passed(each)
        records, lines = (each.said for each in done)
        assert records.count(b"@hil ") >= 30
        assert b"echo" not in records
        assert lines.count(b"echo: one") == 1
        assert b"@hil" not in lines
        assert [on.plugged.status().flash_writes for on, *_ in runs] == [1, 1]
        assert [on.held_by() for on, *_ in runs] == [False, False]


def test_a_firmware_that_is_there_is_not_written_again(board: OnBoard) -> None:
    first, second = board.suite("first"), board.suite("second")
    for each in (first, second):
        require_one_passed(each)
    status = board.plugged.status()
    assert status.flash_writes == 1
    assert "'echo' is on the board already: reset, not written again" in second.shown
    # It did start anew all the same, and nothing from before is taken for its word.
    assert second.said.count(b"echo ready") == 1


@dataclass(frozen=True)
class Lab:
    """The hardware lane with a board plugged in."""

    lane: RealLane
    board: OnBoard
    folder: Path

    def test(self, *options: str) -> Outcome:
        return self.lane.test(self.folder / "run", *options)


@pytest.fixture
def lab(board: OnBoard, tmp_path: Path) -> Lab:
    """An installed core, as far as files go, in a cache of its own."""
    return Lab(lay_out(tmp_path / "lab", board.child.environment()), board, tmp_path)


def test_the_hardware_lane_runs_to_the_board_itself(lab: Lab) -> None:
    first = lab.test()
    require_one_passed(first)
    assert first.record["stand_in"] is None, "it cannot know that the board is none"
    require_one_passed(lab.test())
    assert lab.board.plugged.status().flash_writes == 1
    locks = list((lab.folder / "lab" / "locks").glob("*HILUNOQ0001*"))
    assert [each.read_bytes() for each in locks] == [b""], "the board was not given back"


def test_power_is_switched_where_the_inventory_says_how(run_dir: Path, tmp_path: Path) -> None:
    switched, inventory = tmp_path / "switched", tmp_path / "bench.toml"
    inventory.write_text(
        '[[board]]\nserial_number = "HILUNOQ0001"\nname = "unoq"\nreset = ["power"]\n'
        f'power_command = ["touch", "{switched}"]\n'
    )
    with plugged_in(run_dir, tmp_path, "[upload_fails]\ntimes = 1\n") as on:
        lane = lay_out(tmp_path / "lab", on.child.environment())
        run = lane.test(tmp_path / "run", "--bench", str(inventory))
        assert run.code == EXIT_PASSED, run.shown
        (retry,) = run.record["cases"][0]["retries"]
        assert retry.endswith("; switching its power: the board came back")
        assert switched.exists()
        assert on.plugged.status().flash_writes == 1


def test_one_of_two_boards_has_to_be_chosen(lab: Lab, run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with plugged_in(run_dir, tmp_path / "other") as other:
        numbers = sorted(each.plugged.serial_number for each in (lab.board, other))
        run = lab.test()
        assert run.code == EXIT_FAULT
        diagnosis = require_symptom(
            run, "fault", "board", f"2 boards match 'unoq': {', '.join(numbers)}"
        )
        assert "--hil-serial" in str(diagnosis["remedy"])
        require_one_passed(lab.test("--serial-number", other.plugged.serial_number))
        assert [each.plugged.status().flash_writes for each in (lab.board, other)] == [0, 1]


def test_a_port_that_somebody_else_holds_names_him(lab: Lab) -> None:
    text = "import serial, sys; s = serial.Serial(sys.argv[1], exclusive=True); print('held');"
    holder = process.spawn(
        (sys.executable, "-u", "-c", f"{text} sys.stdin.read()", lab.board.plugged.address),
        stdin=process.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        run = lab.test()
    finally:
        process.end(holder)
    assert run.code == EXIT_FAULT
    require_symptom(
        run, "fault", "board",
        rf"port '.*/tty' of board 'HILUNOQ0001' is held by python\S* \(process {holder.pid}\)",
    )  # fmt: skip
    assert lab.board.plugged.status().boots == 0


def no_core(lane: RealLane) -> None:
    shutil.rmtree(lane.packages / "hardware")


def other_core(lane: RealLane) -> None:
    folder = lane.packages / "hardware" / "zephyr"
    (folder / "0.90.0").rename(folder / "0.99.0")


def second_core(lane: RealLane) -> None:
    folder = lane.packages / "hardware" / "zephyr"
    shutil.copytree(folder / "0.90.0", folder / "0.99.0")


def no_bridge(lane: RealLane) -> None:
    (lane.home / "user" / "libraries" / "Arduino_RouterBridge").unlink()


def no_adb(lane: RealLane) -> None:
    shutil.rmtree(lane.packages / "tools" / "adb")


SHADOWED = (
    r"the bench's folder for core arduino:zephyr 0\.90\.0 holds version 0\.99\.0, which arduino-cli"
    " may take instead"
)

INSTALLED: dict[str, tuple[Callable[[RealLane], None], str, str, str, str]] = {
    "no core": (
        no_core, "skipped", "build",
        r"Arduino core arduino:zephyr 0\.90\.0 is not installed for the bench",
        "hil core install 0.90.0",
    ),
    "another version": (
        other_core, "fault", "build",
        SHADOWED, "hil core install 0.90.0",
    ),
    "one that shadows it": (
        second_core, "fault", "build",
        SHADOWED, "delete ",
    ),
    "no library for Serial": (
        no_bridge, "fault", "build", "Arduino_RouterBridge is missing", "hil core install",
    ),
    "no adb": (
        no_adb, "skipped", "board",
        "there is no adb: neither configured, nor with the board's core, nor on PATH",
        "hil core install",
    ),
}  # fmt: skip
"""What is done to an installed core; verdict, stage, first line and a piece of the remedy."""


@pytest.mark.parametrize("what", INSTALLED)
def test_a_core_that_is_not_as_it_should_be(lab: Lab, what: str) -> None:
    spoil, kind, stage, sentence, remedy = INSTALLED[what]
    if what == "no adb" and shutil.which("adb") is not None:
        pytest.skip("this machine has an adb on PATH")
    spoil(lab.lane)
    run = lab.test()
    assert remedy in str(require_symptom(run, kind, stage, sentence)["remedy"])
    assert run.code == {"skipped": EXIT_NOTHING_RAN, "fault": EXIT_FAULT}[kind]
    if kind == "skipped":
        # One line, with what to do.
        assert len([line for line in run.shown.splitlines() if remedy in line]) == 1
    assert lab.board.plugged.status().boots == 0
    assert lab.board.strangers() == []


def test_a_port_that_this_user_may_not_open(run_dir: Path, tmp_path: Path) -> None:
    """Without the right that root has to open whatever it likes, where this user is root."""
    prefix: tuple[str, ...] = ()
    if os.getuid() == 0:
        prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--")
        if shutil.which("setpriv") is None or not process.run((*prefix, "true"), timeout_s=20).ok:
            pytest.skip("setpriv cannot take root's rights away here")
    out = tmp_path / "run"
    with plugged_in(run_dir, tmp_path, "[port_denied]\nafter_ms = 1\n") as on:
        port = Path(on.plugged.address)
        wait_until(lambda: port.stat().st_mode & 0o777 == 0, 20)
        done = process.run(
            (*prefix, *on.suite_argv(out)), timeout_s=120, cwd=ROOT, env=on.child.environment()
        )
        run = Outcome(done.returncode, done.stdout + done.stderr, out)
        assert run.code == EXIT_FAULT
        diagnosis = require_symptom(
            run, "fault", "board",
            r"port '.*/tty' of board 'HILUNOQ0001' may not be opened by user '.*': it is c-{9} ",
        )  # fmt: skip
        assert "udev" in str(diagnosis["remedy"]) or "rule" in str(diagnosis["remedy"])
        assert on.plugged.status().boots == 0
