"""``hil``: the front door.  Each command's arguments live beside the stage that it fronts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from harness import test_command
from harness.arduino.command import add_parser as add_env
from harness.boards import command as boards_command
from harness.emulator.command import add_parser as add_emulate
from harness.errors import HilError, UsageError
from harness.machine.command import add_parser as add_doctor
from harness.preflight.command import add_parser as add_preflight
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no error leaves as a traceback."""
    parser = argparse.ArgumentParser(
        prog="hil",
        description="Proves that the ExecuTorch Arduino library works on boards.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (
        test_command.add_test_parser,
        test_command.add_demo_parser,
        boards_command.add_parser,
        add_emulate,
        add_env,
        add_preflight,
        add_doctor,
    ):
        add(commands)
    arguments = parser.parse_args(argv)
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


def show_error(error: HilError) -> None:
    """One sentence, the remedy, and what was seen."""
    print(f"hil: {printable(error.message, limit=2000)}", file=sys.stderr)
    print(f"  remedy: {printable(error.remedy, limit=2000)}", file=sys.stderr)
    for line in error.evidence:
        print(f"  | {printable(line)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
