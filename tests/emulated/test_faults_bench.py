"""Faults of the bench itself: no board, two boards, a busy port, a bad upload tool, a full disk."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import serial

from harness import process
from harness.boards.board import find_board
from harness.emulator.client import PluggedBoard, plug_in
from harness.machine.tool import find_arduino_cli
from harness.report.verdict import EXIT_FAULT, EXIT_PASSED
from tests.child_run import HIL, PYTEST, ChildBench, Outcome

UPLOAD = "upload.py"


@pytest.fixture
def plugged(child: ChildBench, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluggedBoard]:
    """A board that is plugged in before the run and stays so after it."""
    monkeypatch.setenv("HIL_RUN_DIR", str(child.run_dir))
    board = plug_in(find_board("m33"), lease_pid=os.getpid())
    yield board
    board.unplug()
    child.require_clean()


def echo(child: ChildBench, *options: str) -> Outcome:
    """The cheapest case of the suite."""
    words = ("test", "m33", "--out", str(child.out), "-k", "test_echo", *options)
    done = process.run((*HIL, *words), timeout_s=240, env=child.environment())
    return Outcome(done.returncode, done.stdout + done.stderr, child.out)


def cases(child: ChildBench, chosen: str) -> Outcome:
    """Cases of fault_cases.py."""
    words = ("tests/emulated/fault_cases.py", "-q", "-k", chosen, "--hil-board=m33")
    junit = f"--junitxml={child.out / 'junit.xml'}"
    done = process.run(
        (*PYTEST, *words, f"--hil-out={child.out}", junit), timeout_s=240, env=child.environment()
    )
    return Outcome(done.returncode, done.stdout + done.stderr, child.out)


def require_fault(run: Outcome, stage: str, sentence: str) -> dict[str, object]:
    (case,) = run.record["cases"]
    diagnosis: dict[str, object] = case["diagnosis"]
    assert (case["verdict"], diagnosis["stage"]) == ("fault", stage), diagnosis
    assert re.match(sentence, str(diagnosis["symptom"])), diagnosis["symptom"]
    assert diagnosis["remedy"]
    assert run.code == EXIT_FAULT
    assert "Traceback" not in run.shown
    return diagnosis


def require_free(board: PluggedBoard) -> None:
    serial.Serial(board.address, exclusive=True).close()


@pytest.mark.parametrize("option", [("--port", "/dev/ttyNONE"), ("--serial-number", "HILM339")])
def test_no_board_plugged_in(child: ChildBench, option: tuple[str, str]) -> None:
    run = echo(child, *option)
    child.require_clean()
    diagnosis = require_fault(run, "board", rf"no board 'm33' .*'{option[1]}' is plugged in")
    assert "hil emulate m33" in str(diagnosis["remedy"])
    assert diagnosis["evidence"] == ["no port was found at all"]


def test_two_boards_match(child: ChildBench, plugged: PluggedBoard) -> None:
    other = plug_in(find_board("m33"), lease_pid=os.getpid())
    try:
        run = cases(child, "test_two_boards_match")
    finally:
        other.unplug()
    serials = f"{plugged.serial_number}, {other.serial_number}"
    diagnosis = require_fault(run, "board", f"2 boards match 'm33': {serials}")
    assert "--hil-serial" in str(diagnosis["remedy"])
    assert len(diagnosis["evidence"]) == 2  # type: ignore[arg-type]  # a list, as JSON has it


def test_busy_port_names_its_holder(child: ChildBench, plugged: PluggedBoard) -> None:
    text = "import serial, sys; s = serial.Serial(sys.argv[1], exclusive=True); print('held');"
    holder = process.spawn(
        (sys.executable, "-u", "-c", f"{text} sys.stdin.read()", plugged.address),
        stdin=process.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        run = echo(child, "--port", plugged.address)
        require_fault(
            run, "board", rf"port '.*/tty' is busy: held by python\S* \(process {holder.pid}\)"
        )
        assert plugged.status().boots == 0
    finally:
        process.end(holder)
    again = echo(child, "--port", plugged.address)
    assert again.code == EXIT_PASSED, again.shown
    require_free(plugged)


def with_tool(child: ChildBench, folder: Path, what: str) -> ChildBench:
    """A bench whose upload tool does ``what`` instead of flashing; arduino-cli is the real one."""
    program(folder / "tool" / "python3", f'case "$*" in *{UPLOAD}*) {what} ;; esac', sys.executable)
    # Found on PATH before the one in the cache; what it starts as python3 is the script above.
    swap = f'case " $* " in *" upload "*) export PATH="{folder / "tool"}:$PATH" ;; esac'
    program(folder / "bin" / "arduino-cli", swap, str(find_arduino_cli()))
    return replace(child, extra={"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"})


def program(path: Path, first: str, then: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\n{first}\nexec "{then}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def test_upload_tool_that_fails(child: ChildBench, plugged: PluggedBoard, tmp_path: Path) -> None:
    broken = with_tool(child, tmp_path, "echo 'verify failed in bank' >&2; exit 1")
    run = echo(broken, "--port", plugged.address)
    diagnosis = require_fault(
        run, "upload", r"uploading 'echo' to '.*/tty' failed with exit code 1: .*"
    )
    assert "verify failed in bank" in str(diagnosis["evidence"])
    assert plugged.status().boots == 0
    require_free(plugged)


def test_upload_tool_that_lies(child: ChildBench, plugged: PluggedBoard, tmp_path: Path) -> None:
    assert echo(child, "--port", plugged.address).code == EXIT_PASSED
    lying = with_tool(child, tmp_path, "echo 'flashed 4711 bytes'; exit 0")
    run = echo(lying, "--port", plugged.address)
    require_fault(run, "upload", r"the upload tool reported success, but the board at '.*/tty'")
    require_free(plugged)


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of as many MiB as the test is parametrized with."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={request.param}m", "tmpfs", str(folder))
    if os.getuid() != 0 or not process.run(mount, timeout_s=20).ok:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    process.run(("umount", str(folder)), timeout_s=20)


@pytest.mark.parametrize("small_disk", [2], indirect=True)
def test_disk_that_fills_up_under_the_transcript(child: ChildBench, small_disk: Path) -> None:
    run = cases(replace(child, out=small_disk / "out"), "test_floods")
    child.require_clean()
    require_fault(run, "session", "the transcript in '.*' cannot be written: No space left")
    assert len(run.said) > 256 * 1024
    assert 'value="fault"' in (run.out / "junit.xml").read_text()


@pytest.mark.parametrize(
    ("small_disk", "sentence"),
    [
        (8, r"the disk is full: '.*' has \d+ B left and a build needs about \d+ B"),
        (32, r"the disk is full: compiling 'flash_overflow' for board 'm33' could not write"),
    ],
    indirect=["small_disk"],
)
def test_disk_that_is_full_for_a_build(child: ChildBench, small_disk: Path, sentence: str) -> None:
    tools = {"PATH": f"{find_arduino_cli().parent}{os.pathsep}{os.environ['PATH']}"}
    run = cases(replace(child, extra={"HIL_CACHE": str(small_disk), **tools}), "test_fills")
    child.require_clean()
    require_fault(run, "build", sentence)
