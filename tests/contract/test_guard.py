"""What a process starts ends with it, however it ends: real children, killed without a word."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from harness import process
from harness.clock import Deadline, pause
from harness.errors import ToolError

TOOL = """
import os, sys, time
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
open(sys.argv[1] + str(os.getpid()), "w").close()
time.sleep(300)
"""
"""A tool and its child, in a process group of its own as arduino-cli's compilers are."""

RUNS_IT = """
import sys
from harness import process
process.run((sys.executable, "-c", sys.argv[1], sys.argv[2]), timeout_s=300)
"""


def wait_for(true: object) -> None:
    assert callable(true)
    deadline = Deadline.after(30)
    while not true():
        assert not deadline.expired
        pause(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_takes_its_tools_and_theirs_along(
    tmp_path: Path, number: signal.Signals
) -> None:
    marks = f"{tmp_path}/"
    # Not under a guard itself, which would end the tools for it.
    runner = process.spawn((sys.executable, "-c", RUNS_IT, TOOL, marks))
    try:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        tools = [int(each.name) for each in tmp_path.iterdir()]
        assert all(process.alive(pid) for pid in tools)
        os.kill(runner.pid, number)
        runner.wait()
        wait_for(lambda: not any(process.alive(pid) for pid in tools))
    finally:
        process.end(runner, grace_s=0.5)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15)],
)
def test_how_a_command_ended_is_passed_on(script: str, code: int) -> None:
    done = process.run(("sh", "-c", f"echo out; echo err >&2; {script}"), timeout_s=20)
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")
    assert done.argv[0] == "sh"


def test_a_command_hears_an_interrupt_as_if_nobody_stood_before_it() -> None:
    script = "trap 'echo heard; exit 5' INT; echo ready; while :; do sleep 0.05; done"
    child = process.spawn(("sh", "-c", script), guarded=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        process.signal_session(child.pid, signal.SIGINT)
        assert child.stdout.readline() == b"heard\n"
        assert child.wait() == 5
    finally:
        process.end(child, grace_s=0.5)


def test_a_broken_pipe_ends_a_command_as_usual() -> None:
    done = process.run(("sh", "-c", "yes | head -1"), timeout_s=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "y\n", "")


def test_what_is_no_program_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^cannot start '/no/such/program': No such file"):
        process.run(("/no/such/program",), timeout_s=20)
    broken = tmp_path / "tool"
    broken.write_text("text\n")
    with pytest.raises(ToolError, match=r"^cannot start '.*/tool': Permission denied"):
        process.run((str(broken),), timeout_s=20)
