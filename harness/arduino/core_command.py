"""``hil core``: install a version of the board's core for the bench, and list what is there.

Each version gets an arduino-cli data folder of its own, below the bench's cache; the user's own
Arduino folders are neither read nor written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import process
from harness.arduino.cli import ArduinoCli, failure_text
from harness.arduino.core_home import (
    cores_dir,
    installed_versions,
    real_home,
    standin_home,
    write_configuration,
)
from harness.boards.board import Board, find_board
from harness.errors import HilError, ToolError, UsageError
from harness.machine.tool import find_arduino_cli
from harness.storage.lock import hold

INSTALL_TIMEOUT_S = 3600.0
"""For one call: the core's compiler alone is some 100 MB."""

NETWORK_EXIT_CODE = 5
"""Exit code of arduino-cli for network errors: internal/cli/feedback/errorcodes.go."""

_NETWORK_TEXTS = (
    "no such host",
    "dial tcp",
    "connection refused",
    "network is unreachable",
    "i/o timeout",
    "TLS handshake timeout",
    "Error downloading",
    "Error initializing instance: Loading index file",
)
"""What arduino-cli prints where it has no connection and exits with another code."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil core`` into the command line."""
    parser = commands.add_parser(
        "core",
        help="install and list versions of a real board's Arduino core",
        description="Versions exist side by side, each in a folder of the bench's own.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    install = actions.add_parser("install", help="install one version with arduino-cli")
    install.add_argument("version", help="as in the board's file, e.g. 0.90.0")
    install.add_argument("--board", default="unoq", help="the board whose core it is")
    install.set_defaults(func=run_install)
    listing = actions.add_parser("list", help="what is installed, and where")
    listing.add_argument("--board", default="unoq", help="the board whose core it is")
    listing.add_argument("--json", action="store_true", help="machine-readable")
    listing.set_defaults(func=run_list)


@dataclass(frozen=True)
class KnownCore:
    """A core version of a board's file, and whether the bench can use it here."""

    board: str
    platform: str
    version: str
    installed: bool
    folder: str
    standin: bool


def run_install(options: argparse.Namespace) -> int:
    """Install, say where; exit code 0, or the error of :func:`install`."""
    board = _board(options.board)
    core = board.core_version(options.version)
    home = install(board, core.version, progress=lambda line: print(line, file=sys.stderr))
    print(f"{board.platform} {core.version} is installed in {home}")
    return 0


def run_list(options: argparse.Namespace) -> int:
    """Print one line, or one JSON object, for each core version that the board's file knows."""
    found = known_cores(_board(options.board))
    if options.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return 0
    for each in found:
        state = f"installed in {each.folder}" if each.installed else "not installed"
        standin = ", stand-in in use" if each.standin else ""
        print(f"{each.platform} {each.version}  {state}{standin}")
    return 0


def known_cores(board: Board) -> tuple[KnownCore, ...]:
    """Every core version of the board's file, in its order."""
    found = []
    for core in board.core_versions:
        home = real_home(board.platform, core.version)
        there = core.version in installed_versions(home, board.platform)
        found.append(
            KnownCore(
                board=board.name,
                platform=board.platform,
                version=core.version,
                installed=there,
                folder=str(home) if there else "",
                standin=standin_home(core.version).is_dir(),
            )
        )
    return tuple(found)


def install_commands(board: Board, version: str) -> tuple[tuple[str, ...], ...]:
    """The arguments of each call of arduino-cli, after the configuration, in order.

    Source: https://arduino.github.io/arduino-cli/latest/commands/arduino-cli_core_install/ and
    arduino-cli_lib_install/.  The core's package index is named by the configuration.
    """
    libraries = [each.name for each in board.core_version(version).libraries]
    return (
        ("core", "update-index"),
        ("core", "install", f"{board.platform}@{version}"),
        ("lib", "update-index"),
        *(("lib", "install", name) for name in libraries),
    )


def install(board: Board, version: str, *, progress: Callable[[str], None]) -> Path:
    """Install one core version with its libraries into a folder of its own; returns that folder.

    Done beside its place and renamed into it, so that nothing half installed is ever seen.  Raises
    :class:`ToolError` when arduino-cli cannot, which names the network where that is the reason.
    """
    home = real_home(board.platform, version)
    with hold(
        home.with_suffix(home.suffix + ".lock"),
        purpose=f"installing {board.platform} {version}",
        timeout_s=INSTALL_TIMEOUT_S,
        progress=progress,
    ):
        if version in installed_versions(home, board.platform):
            progress(f"{board.platform} {version} is installed already")
            return home
        making = cores_dir() / f".installing-{home.name}"
        shutil.rmtree(making, ignore_errors=True)
        try:
            making.mkdir(parents=True)
            cli = ArduinoCli(find_arduino_cli(), write_configuration(making), making)
            for arguments in install_commands(board, version):
                progress(f"arduino-cli {' '.join(arguments)}")
                _call(cli, arguments, f"{board.platform} {version}")
            if installed_versions(making, board.platform) != (version,):
                raise ToolError(
                    f"arduino-cli reported success but installed no {board.platform} {version}",
                    remedy="run the command again; if it repeats, look into the package index",
                    evidence=(f"found: {installed_versions(making, board.platform)!r}",),
                )
            # Written anew, since it names the folders.
            (making / cli.config.name).unlink()
            shutil.rmtree(home, ignore_errors=True)
            making.rename(home)
            write_configuration(home)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return home


def _call(cli: ArduinoCli, arguments: Sequence[str], what: str) -> None:
    done = cli.run(arguments, timeout_s=INSTALL_TIMEOUT_S)
    if not done.ok:
        raise explain(done, arguments, what)


def explain(done: process.Completed, arguments: Sequence[str], what: str) -> HilError:
    """The error that a failed call stands for."""
    text = failure_text(done)
    lines = tuple(line[:300] for line in text.splitlines() if line.strip())[-8:]
    if done.returncode == NETWORK_EXIT_CODE or any(each in text for each in _NETWORK_TEXTS):
        return ToolError(
            f"core {what} cannot be installed: this machine has no way to Arduino's servers",
            remedy="run it on a machine with internet, or set HTTPS_PROXY if there is a proxy",
            evidence=lines,
        )
    return ToolError(
        f"core {what} was not installed: 'arduino-cli {' '.join(arguments)}' exited with"
        f" {done.returncode}",
        remedy="look at its message below",
        evidence=lines,
    )


def _board(name: str) -> Board:
    board = find_board(name)
    if board.linux_side is None:
        raise UsageError(
            f"board {board.name!r} has no core to install: its platform comes with the bench",
            remedy="name a real board with --board, e.g. unoq",
        )
    return board
