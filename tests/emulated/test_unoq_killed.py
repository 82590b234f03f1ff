"""A run on a Uno Q that is killed without a word, in every stage: the next one starts clean.

Nothing of it goes on, no lock stays, and what it may have left half written is not believed.  Each
stage has a board of its own, which survives the run, as one on USB does.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import process
from harness.boards.board import find_board
from harness.machine.tool import find_arduino_cli
from harness.report.verdict import EXIT_PASSED
from tests.child_run import ROOT, ChildBench, Outcome, wait_until
from tests.emulated.direct import need
from tests.emulated.unoq_board import CASES, OnBoard, plugged_in

AT_ONCE = 3
GUARD = "harness/guard.py"
TOOK_OVER = (
    r"took over board 'HILUNOQ0001' from process {pid} \(.*\), which had it since \S+ and ended"
    r" without giving it back"
)


@dataclass(frozen=True)
class Stage:
    """Where a run is killed: in ``case``, or the suite's own without one, once ``when`` holds.

    ``owned``: the board was its own by then.  ``spared``: the guard of its tools is killed as well,
    so that they go on while the next run begins.
    """

    when: Callable[[OnBoard, Path], bool]
    case: str = ""
    owned: bool = True
    spared: bool = False


def started(text: str) -> Callable[[OnBoard, Path], bool]:
    """Whether a process of the run has this in its command line."""

    def look(on: OnBoard, mark: Path) -> bool:
        del mark
        return any(text in each and GUARD not in each for each in on.child.processes())

    return look


def marked(on: OnBoard, mark: Path) -> bool:
    """Whether the case has said so itself."""
    del on
    return mark.exists()


def by_itself(on: OnBoard, mark: Path) -> bool:
    """Never: the case kills its own process."""
    del on, mark
    return False


STAGES: Mapping[str, Stage] = {
    "board": Stage(lambda on, mark: on.held_by()),  # noqa: ARG005
    "build": Stage(marked, "test_hang_build", owned=False),
    "upload": Stage(started("remoteocd")),
    "upload, its tools go on": Stage(started("remoteocd"), spared=True),
    "after the upload": Stage(lambda on, mark: on.plugged.status().flash_writes > 0),  # noqa: ARG005
    "session": Stage(marked, "test_hang_session"),
    "teardown": Stage(by_itself, "test_dies_in_teardown"),
    "end": Stage(by_itself, "test_dies_at_the_end", owned=False),
}


@dataclass(frozen=True)
class Killed:
    """What a killed run left, and what the next one made of it."""

    pid: int
    code: int
    files: frozenset[str]
    left: list[str]
    held: bool
    writes: tuple[int, int]
    after: Outcome
    freed: bool


def blocked_compiler(folder: Path, mark: Path) -> Mapping[str, str]:
    """A compiler that says that it was started, and hangs."""
    script = folder / "bin" / "arm-none-eabi-g++"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\ntouch "{mark}"\nsleep 300\n')
    script.chmod(0o755)
    # The core's compiler is found on PATH; arduino-cli itself has to be, too.
    path = (str(script.parent), str(find_arduino_cli().parent), os.environ["PATH"])
    return {"PATH": os.pathsep.join(path)}


def kill(name: str, stage: Stage, folder: Path) -> Killed:
    """Kill a run in this stage, then have another one on the same board."""
    mark, out, log = folder / "mark", folder / "killed", folder / "killed.txt"
    extra = {"FAULT_MARK": str(mark)}
    if name == "build":
        extra |= blocked_compiler(folder, mark)
    with TemporaryDirectory(prefix="hil") as short, plugged_in(Path(short), folder) as on:
        argv = on.case_argv(stage.case, out) if stage.case else on.suite_argv(out)
        run = on.start(argv, log, extra)
        try:
            wait_until(lambda: run.poll() is not None or stage.when(on, mark), 120)
            if stage.when is not by_itself:
                assert run.poll() is None, log.read_text(errors="replace")
                guards = guards_of(on) if stage.spared else []
                for pid in (*guards, run.pid):
                    os.kill(pid, signal.SIGKILL)
            code = run.wait()
            left = [] if stage.spared else on.strangers()
            held = on.held_by()
            before = on.plugged.status().flash_writes
            after = on.suite("after")
            freed = not on.held_by() and not on.strangers()
            writes = (before, on.plugged.status().flash_writes)
        finally:
            process.end(run)
        on.plugged.unplug()
        on.child.require_clean()
    files = frozenset(str(each.relative_to(out)) for each in out.rglob("*"))
    return Killed(run.pid, code, files, left, held, writes, after, freed)


def guards_of(on: OnBoard) -> list[int]:
    """The processes that would end what the run has started."""
    mark = f"HIL_RUN_DIR={on.child.run_dir}\0".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            if GUARD.encode() in words and mark in (folder / "environ").read_bytes() + b"\0":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Killed]]]:
    """Every stage, some at once: the runs wait more than they work."""
    need(find_board("unoq"))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            name: pool.submit(kill, name, stage, tmp_path_factory.mktemp("killed"))
            for name, stage in STAGES.items()
        }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", STAGES)
def test_a_killed_run_leaves_nothing_and_the_next_one_works(
    killed: Mapping[str, Future[Killed]], name: str
) -> None:
    made, stage = killed[name].result(), STAGES[name]
    assert made.code == -signal.SIGKILL
    assert made.left == []
    assert not made.held
    # Its evidence says that it was cut off: it began, and has no record.
    assert "begun.json" in made.files
    assert "run.json" not in made.files
    after = made.after
    assert after.code == EXIT_PASSED, after.shown
    assert made.freed
    assert "Traceback" not in after.shown
    warnings = "\n".join(after.record["warnings"])
    taken = re.search(TOOK_OVER.format(pid=made.pid), warnings)
    assert bool(taken) is stage.owned, warnings
    if stage.owned:
        assert taken is not None
        assert taken[0] in after.shown
        assert after.case("test_echo[echo]")["remarks"] == [taken[0]]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, stage in STAGES.items() if stage.owned])
def test_what_a_killed_run_had_written_is_not_believed(
    killed: Mapping[str, Future[Killed]], name: str
) -> None:
    made = killed[name].result()
    before, after = made.writes
    # Also where the build on the board has the very nonce that is wanted.
    assert after > before
    assert "is on the board already" not in made.after.shown


@pytest.mark.timeout(300)
def test_what_a_run_gave_back_before_it_died_is_believed(
    killed: Mapping[str, Future[Killed]],
) -> None:
    made = killed["end"].result()
    assert made.writes == (1, 1)
    assert "'echo' is on the board already: reset, not written again" in made.after.shown


@pytest.mark.timeout(120)
def test_a_board_of_the_killed_run_itself_goes_away_with_it(tmp_path: Path) -> None:
    need(find_board("unoq"))
    mark = tmp_path / "mark"
    with TemporaryDirectory(prefix="hil") as short:
        child = ChildBench(Path(short), tmp_path / "out", {"FAULT_MARK": str(mark)})
        with (tmp_path / "log").open("wb") as stream:
            run = process.spawn(
                (*CASES, "-k", "test_hang_session", f"--hil-out={child.out}"),
                cwd=ROOT,
                env=child.environment(),
                stdout=stream,
                stderr=stream,
            )
        try:
            wait_until(lambda: mark.exists() or run.poll() is not None, 60)
            os.kill(run.pid, signal.SIGKILL)
            assert run.wait() == -signal.SIGKILL
            child.require_clean()
        finally:
            process.end(run)
