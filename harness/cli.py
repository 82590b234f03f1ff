"""``hil``: the front door.  Each command's arguments live beside the stage that it fronts."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence

from harness.errors import HilError, UsageError
from harness.report.text import printable
from harness.report.verdict import EXIT_FAULT, EXIT_INTERRUPTED, EXIT_USAGE

EXIT_CODES = """\
exit codes:
  0    everything passed
  1    the device under test, or the file that was checked, is wrong
  2    the command line, a board file or the configuration is wrong; nothing was run
  3    the bench, a tool or the way to the board is at fault; nothing is known of the device
  4    nothing ran: every case was skipped, or none was selected
  130  interrupted
"""


COMMANDS = {
    "test": ("harness.suite_command", "add_test_parser"),
    "demo": ("harness.suite_command", "add_demo_parser"),
    "boards": ("harness.boards.command", "add_parser"),
    "emulate": ("harness.emulator.command", "add_parser"),
    "core": ("harness.arduino.core_command", "add_parser"),
    "bench": ("harness.bench.command", "add_parser"),
    "arena": ("harness.arena.command", "add_parser"),
    "autopsy": ("harness.autopsy.command", "add_parser"),
    "replay": ("harness.evidence.command", "add_replay_parser"),
    "pack": ("harness.evidence.command", "add_pack_parser"),
    "env": ("harness.arduino.command", "add_parser"),
    "preflight": ("harness.preflight.command", "add_parser"),
    "cache": ("harness.storage.command", "add_parser"),
    "doctor": ("harness.machine.command", "add_parser"),
}
"""Module and function that hook each command into the command line."""

Adder = Callable[["argparse._SubParsersAction[argparse.ArgumentParser]"], None]


def _adders(command: str) -> Iterator[Adder]:
    """Only what the command needs is imported; for the overview, or a wrong word, everything."""
    wanted = [COMMANDS[command]] if command in COMMANDS else COMMANDS.values()
    for module, function in wanted:
        add: Adder = getattr(importlib.import_module(module), function)
        yield add


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no error leaves as a traceback."""
    parser = argparse.ArgumentParser(
        prog="hil",
        description="Proves that the ExecuTorch Arduino library works on boards.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    words = list(sys.argv[1:] if argv is None else argv)
    for add in _adders(words[0] if words else ""):
        add(commands)
    passed_on: list[str] = []
    if words[:1] == ["test"] and "--" in words:
        # By hand: argparse does not take a list after -- where options stand before it.
        at = words.index("--")
        words, passed_on = words[:at], words[at + 1 :]
    arguments = parser.parse_args(words)
    if passed_on:
        arguments.pytest = passed_on
    run: Callable[[argparse.Namespace], int] = arguments.func
    try:
        return run(arguments)
    except HilError as error:
        show_error(error)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAULT
    except BrokenPipeError:
        # The reader of our output went away ("hil boards | head"): not an error of ours.
        sys.stderr.close()
        return EXIT_FAULT
    except KeyboardInterrupt:
        print("hil: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:  # a traceback on the screen helps nobody but the bench's makers
        print(f"hil: the bench itself is broken: {_keep_traceback(error)}", file=sys.stderr)
        return EXIT_FAULT


def _keep_traceback(error: Exception) -> str:
    """One sentence that names the error, and the file that has its traceback."""
    told = printable(f"{type(error).__name__}: {error}")
    text = "".join(traceback.format_exception(error))
    try:
        number, name = tempfile.mkstemp(prefix="hil-traceback-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            stream.write(text)
    except OSError:
        return f"{told}\n{text}"
    return f"{told}\n  remedy: report it with {name}"


def show_error(error: HilError) -> None:
    """One sentence, the remedy, and what was seen."""
    print(f"hil: {printable(error.message, limit=2000)}", file=sys.stderr)
    print(f"  remedy: {printable(error.remedy, limit=2000)}", file=sys.stderr)
    for line in error.evidence:
        print(f"  | {printable(line)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
