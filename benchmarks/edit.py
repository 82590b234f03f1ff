"""Edit: one changed line of a sketch, or of the runner, to its verdict.

``python -m benchmarks.edit [--board m33] [--runs N]``.  Beside the sketch: compile that one file,
link, and boot, each called directly.  The runner must not make one library object anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
from pathlib import Path

from benchmarks.bare import commands, compile_all
from benchmarks.measure import ROOT, Home, hil, home, judge, middle, show, timed
from benchmarks.warm import library_of
from harness import process
from harness.arduino.cli import open_cli
from harness.arduino.precompiled import link_library
from harness.boards.board import Board, find_board
from harness.clock import monotonic_s
from harness.emulator.client import plug_in
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.transcript import open_transcript
from harness.suite_command import UNUSED_PLUGINS

TARGET = 2.0
SKETCH = "AddModel"
BANNER = "=== ExecuTorch Add Model ==="
ANSWER = "4.00]"
TEST = f'''
import pathlib
import pytest

@pytest.mark.hil_sketch("{SKETCH}")
def test_it(dut):
    edit = pathlib.Path(__file__).with_name("edit.txt").read_text()
    dut.expect_exact(edit, timeout_s=60)
    dut.expect_exact("{ANSWER}", timeout_s=60)
'''


def project(own: Home, board: str) -> Path:
    """A developer's own folder: upstream's example, and one test of it."""
    folder = own.folder / "project"
    folder.mkdir()
    shutil.copytree(library_of(board).path / "examples" / SKETCH, folder / SKETCH)
    (folder / "test_it.py").write_text(TEST, encoding="utf-8")
    # As docs/plugin.md advises: 'hil test' leaves these out as well.
    left_out = " ".join(f"-p no:{name}" for name in UNUSED_PLUGINS)
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {left_out}\n", encoding="utf-8")
    return folder


def change_line(folder: Path, number: int) -> None:
    """Change the line that prints the banner."""
    main = folder / SKETCH / f"{SKETCH}.ino"
    edited = f"=== edit {os.getpid()}.{number} ==="
    before = BANNER if number == 0 else f"=== edit {os.getpid()}.{number - 1} ==="
    text = main.read_text(encoding="utf-8")
    assert text.count(before) == 1, before
    main.write_text(text.replace(before, edited), encoding="utf-8")
    (folder / "edit.txt").write_text(edited, encoding="utf-8")


def bare_steps(own: Home, board: Board, edit: str) -> list[tuple[str, float]]:
    """Seconds to compile the sketch's file, to link it, and to boot it to its answer."""
    build_path = own.cache / "build" / board.name / SKETCH / "out"
    source = build_path / "sketch" / f"{SKETCH}.ino.cpp"
    out = own.folder / "bare"
    compile_s = middle([compile_all(commands(build_path, source, out), out) for _ in range(3)])
    elf = out / "bare.elf"
    argv = link_command(own, build_path)
    argv[argv.index("-o") + 1] = str(elf)
    argv = [f"-Wl,-Map,{out / 'bare.map'}" if "-Wl,-Map," in each else each for each in argv]
    link_s = middle([timed(argv, os.environ)[0] for _ in range(3)])
    return [
        ("compile that file", compile_s),
        ("link", link_s),
        ("boot to the answer", middle([boot(board, elf, edit) for _ in range(3)])),
    ]


def link_command(own: Home, build_path: Path) -> list[str]:
    """The link that arduino-cli makes in a build path, as it prints it."""
    for record in (own.cache / "firmware").glob("*/build.json"):
        words = json.loads(record.read_text(encoding="utf-8"))["command"]
        if str(build_path) in words:
            verbose = [
                word for each in words for word in ((each, "-v") if each == "compile" else (each,))
            ]
            done = process.run(verbose, timeout_s=600, env=open_cli().environment())
            for line in json.loads(done.stdout)["compiler_out"].splitlines():
                if "-Wl,--whole-archive" in line:
                    return shlex.split(line)
    sys.exit(f"no link of {build_path} was recorded")


def boot(board: Board, elf: Path, edit: str) -> float:
    """Seconds from flashing a plugged-in board to its answer on the port."""
    plugged = plug_in(board, lease_pid=os.getpid())
    try:
        session = Session(
            open_serial_port(plugged.address, baud=board.serial.baud), open_transcript(None)
        )
        session.start()
        try:
            began_s = monotonic_s()
            plugged.flash(elf)
            session.expect_exact(edit, timeout_s=60)
            session.expect_exact(ANSWER, timeout_s=60)
            return monotonic_s() - began_s
        finally:
            session.close()
    finally:
        plugged.unplug()


def sketch_line(own: Home, board: Board, runs: int) -> int:
    """One line of a sketch; 1 when the target is missed."""
    folder = project(own, board.name)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--hil-board",
        board.name,
    ]
    argv += ["--hil-out", str(own.folder / "out"), "test_it.py"]
    # As Python does by default, and 'hil test' in any case: bytecode is kept.
    env = {**own.env, "PYTHONPYCACHEPREFIX": str(own.folder / "bytecode")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    took: list[float] = []
    for number in range(runs + 1):
        change_line(folder, number)
        took.append(timed(argv, env, cwd=folder)[0])
    ours_s = middle(took[1:])
    steps = bare_steps(own, board, (folder / "edit.txt").read_text(encoding="utf-8"))
    bare_s = sum(seconds for _, seconds in steps)
    show(
        f"one line of a sketch changed, {board.name}",
        [*steps, ("together", bare_s), (f"pytest to its end, median of {runs}", ours_s)],
    )
    return judge("verdict to compile + link + boot", ours_s / bare_s, TARGET, at_most=True)


def objects_of(own: Home, board: Board, library: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of the precompiled archive, and of every object that it was made of."""
    built = own.cache / "build" / board.name / "library" / "out"
    files = [*library.rglob("*.a"), *built.rglob("*.o"), *built.rglob("*.a")]
    return {str(each): (each.stat().st_ino, each.stat().st_mtime_ns) for each in files}


def runner_line(own: Home, board: Board) -> int:
    """One line of the runner, in a copy of the bench; 1 when a library object was made anew."""
    linked = link_library(open_cli(), board, library_of(board.name))
    copy = own.folder / "bench"
    for name in ("harness", "boards", "sketches", "tests/hil"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    env = {**own.env, "PYTHONPATH": str(copy)}
    argv = hil("test", board.name, "-k", "test_models and output and add", "--out")
    timed([*argv, str(own.folder / "r0")], env, cwd=copy)
    before = objects_of(own, board, linked.path)
    runner = copy / "sketches" / "runner" / "commands.cpp"
    with runner.open("a", encoding="utf-8") as stream:
        stream.write(f"\nextern const int hil_edit = {os.getpid()};\n")
    ours_s, _ = timed([*argv, str(own.folder / "r1")], env, cwd=copy)
    after = objects_of(own, board, linked.path)
    anew = [name for name in after if before.get(name) != after[name]]
    show(f"one line of the runner changed, {board.name}", [("hil test to its end", ours_s)])
    print(f"  library objects made anew: {len(anew)} of {len(after)}")
    for name in anew[:5]:
        print(f"    {name}")
    return 1 if anew or not after else 0


def main() -> int:
    """Both edits; 1 when one misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", default="m33")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    board = find_board(arguments.board)
    with home(cold=False) as own:
        os.environ["HIL_RUN_DIR"] = str(own.run_dir)
        return sketch_line(own, board, arguments.runs) | runner_line(own, board)


if __name__ == "__main__":
    sys.exit(main())
