"""``hil test BOARD`` and ``hil demo``: the suite people run, with its reports in one folder."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from harness import process
from harness.boards.board import Board, find_board
from harness.errors import BenchError
from harness.machine.bytecode import keep_bytecode
from harness.machine.config import load_config
from harness.paths import suite_dir
from harness.report.run_record import claim, default_folder
from harness.report.text import table
from harness.report.verdict import EXIT_INTERRUPTED, EXIT_PASSED, EXIT_USAGE

DEMO_BOARDS = ("host", "m33")

UNUSED_PLUGINS = ("hypothesispytest", "hydra_pytest", "anyio", "kgb")
"""Plugins that other packages bring along and the suite does not use: hypothesis alone takes longer
to import than all of pytest."""


@dataclass(frozen=True)
class _Option:
    """One option of ``hil test``: pytest's name for it, and what it takes (None for a switch)."""

    name: str
    pytest: str
    takes: str | None
    help: str
    short: str | None = None
    repeats: bool = False

    @property
    def field(self) -> str:
        return self.name.lstrip("-").replace("-", "_")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Hook the option into ``hil test``'s command line."""
        names = (self.short, self.name) if self.short else (self.name,)
        if self.takes is None:
            parser.add_argument(*names, action="store_true", help=self.help)
        else:
            how = "append" if self.repeats else "store"
            parser.add_argument(*names, metavar=self.takes, action=how, help=self.help)

    def words(self, name: str, arguments: argparse.Namespace) -> list[str]:
        """How ``arguments`` are said with this option called ``name``; nothing when not given."""
        given = getattr(arguments, self.field)
        if self.takes is None:
            return [name] if given else []
        values = given or [] if self.repeats else [given]
        return [word for value in values if value is not None for word in (name, value)]


_OPTIONS = (
    _Option("--executorch", "--hil-executorch", "DIR", "ExecuTorch checkout to test"),
    _Option("--library", "--hil-library", "DIR|ZIP", "an already built Arduino library"),
    _Option("--root-ops", "--hil-root-ops", "OPS", "op set of the library (ROOT_OPS=)"),
    _Option("--all-ops", "--hil-all-ops", None, "every portable op (ALL_OPS=1)"),
    _Option(
        "--core-version",
        "--hil-core-version",
        "V",
        "version of the board's core; given several times, all are run and shown together",
        repeats=True,
    ),
    _Option("--virtual", "--hil-virtual", None, "a hardware board's stand-in, not the board"),
    _Option("--behave", "--hil-behave", "FILE", "how the stand-in misbehaves"),
    _Option("--bench", "--hil-bench", "FILE", "inventory of the boards of this bench"),
    _Option("--port", "--hil-port", "PORT", "port of the board, if several match"),
    _Option("--serial-number", "--hil-serial", "SN", "serial number of the board"),
    _Option("-k", "-k", "EXPRESSION", "only cases that match, as in pytest"),
    _Option("--verbose", "-v", None, "one line for each case", short="-v"),
    # For the demo and several core versions, which show one table of all their runs.
    _Option("--brief", "--hil-brief", None, argparse.SUPPRESS),
)


def add_test_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil test`` into the command line."""
    parser = commands.add_parser(
        "test",
        help="run the suite on a board",
        description="Runs the suite on one board; what follows -- goes to pytest.",
    )
    parser.add_argument("board", metavar="BOARD", help="'hil boards' lists them")
    for option in _OPTIONS:
        option.add_to(parser)
    parser.add_argument("--out", metavar="DIR", help="folder of the run's evidence")
    parser.set_defaults(func=run_test, pytest=[])


class _Watch:
    """Whether the run came so far that its exit code is ours: pytest's own mean other things."""

    def __init__(self) -> None:
        self.judged = False

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Told pytest's own code; not called at all where the options are wrong."""
        import pytest

        self.judged = exitstatus is not pytest.ExitCode.USAGE_ERROR


def run_test(arguments: argparse.Namespace) -> int:
    """Run pytest in this process: its start is most of a warm run."""
    keep_bytecode()
    import pytest

    board = find_board(arguments.board)
    versions = list(dict.fromkeys(arguments.core_version or ()))
    if len(versions) > 1:
        return _run_versions(arguments, board, versions)
    watch = _Watch()
    out = _out_folder(arguments.out, board.name)
    # Before pytest: Allure makes its folder there first, and fails in its own way.
    claim(out)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    code = int(pytest.main(pytest_arguments(arguments, out), plugins=[watch]))
    if not watch.judged:
        early = {
            int(pytest.ExitCode.USAGE_ERROR): EXIT_USAGE,
            int(pytest.ExitCode.INTERRUPTED): EXIT_INTERRUPTED,
        }
        return early.get(code, code)
    return code


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """A run that is cancelled, or whose terminal is closed, cleans up as after Ctrl-C."""
    del number, frame
    raise KeyboardInterrupt


def _out_folder(named: str | None, what: str) -> Path:
    return Path(named) if named else default_folder(what)


def pytest_arguments(arguments: argparse.Namespace, out: Path) -> list[str]:
    """The pytest command line that ``hil test`` stands for."""
    suite = suite_dir()
    return [
        str(suite),
        f"--rootdir={suite.parent.parent}",
        f"--hil-board={arguments.board}",
        f"--hil-out={out}",
        f"--junitxml={out / 'junit.xml'}",
        f"--alluredir={out / 'allure'}",
        *([] if arguments.verbose else ["-q"]),
        *(word for name in UNUSED_PLUGINS for word in ("-p", f"no:{name}")),
        *(word for option in _OPTIONS for word in option.words(option.pytest, arguments)),
        *arguments.pytest,
    ]


def add_demo_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil demo`` into the command line."""
    parser = commands.add_parser(
        "demo", help="run the suite on the host board and on an emulated Cortex-M33"
    )
    parser.add_argument("--executorch", metavar="DIR", help="ExecuTorch checkout to test")
    parser.add_argument("--out", metavar="DIR", help="folder of the evidence")
    parser.set_defaults(func=run_demo)


def run_demo(arguments: argparse.Namespace) -> int:
    """Both boards one after the other, then one table; the first bad exit code is the demo's."""
    from harness.machine.doctor import why_not

    out = _out_folder(arguments.out, "demo")
    runs: list[tuple[Path, list[str]]] = []
    for name in DEMO_BOARDS:
        lane = find_board(name).lane
        if reason := why_not(lane):
            print(f"board {name} is left out: {reason}")
            continue
        more = ["--executorch", arguments.executorch] if arguments.executorch else []
        runs.append((out / name, [name, "--brief", "--out", str(out / name), *more]))
    worst = _run_each(runs)
    if arguments.executorch is None and load_config().executorch is None:
        print(
            "with an ExecuTorch checkout (--executorch DIR) the real Arduino library, its three"
            " examples and the int8 models run on the emulated Cortex-M boards, too"
        )
    print(f"evidence: {out}")
    return worst


def _run_versions(arguments: argparse.Namespace, board: Board, versions: list[str]) -> int:
    """The suite on several core versions of one board, one after the other, in one table."""
    for version in versions:
        board.core_version(version)
    out = _out_folder(arguments.out, board.name)
    runs = []
    for version in versions:
        one = argparse.Namespace(**{**vars(arguments), "core_version": [version], "brief": True})
        runs.append((out / version, _words(one, out / version)))
    worst = _run_each(runs)
    print(f"evidence: {out}")
    return worst


def _words(arguments: argparse.Namespace, out: Path) -> list[str]:
    """The words after ``hil test`` that these arguments stand for."""
    return [
        arguments.board,
        *(word for option in _OPTIONS for word in option.words(option.name, arguments)),
        *("--out", str(out)),
        *(["--", *arguments.pytest] if arguments.pytest else []),
    ]


def _run_each(runs: Sequence[tuple[Path, Sequence[str]]]) -> int:
    """Run ``hil test`` for each, then one table of all; the first bad exit code is returned."""
    worst = EXIT_PASSED
    records: list[dict[str, object]] = []
    for folder, words in runs:
        code = _stream([sys.executable, "-m", "harness.cli", "test", *words])
        worst = worst or code
        record = folder / "run.json"
        if not record.is_file():
            if code in (EXIT_USAGE, EXIT_INTERRUPTED):
                return code  # It has said why itself.
            raise BenchError(
                f"the run that was to leave its evidence in {str(folder)!r} left no run.json",
                remedy="read what it printed above",
            )
        records.append(json.loads(record.read_text(encoding="utf-8")))
    print()
    width = shutil.get_terminal_size((118, 40)).columns
    print(table(records, width=width, colour=sys.stdout.isatty()))
    return worst


def _stream(argv: list[str]) -> int:
    sys.stdout.flush()
    child = process.spawn(
        argv,
        env=dict(os.environ),
        stdout=sys.stdout.fileno(),
        stderr=sys.stderr.fileno(),
        guarded=True,
    )
    try:
        return child.wait()
    finally:
        process.end(child)
