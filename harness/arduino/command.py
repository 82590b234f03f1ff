"""``hil env``: makes plain ``arduino-cli`` in anyone's shell see the bench's boards."""

from __future__ import annotations

import argparse
import shlex

from harness.arduino.cli import open_cli


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil env`` into the command line."""
    parser = commands.add_parser(
        "env",
        help="print shell settings for using plain arduino-cli with the bench's boards",
        description='Use it as: eval "$(hil env)". Your own Arduino folders stay untouched.',
    )
    parser.set_defaults(func=run)


def run(_: argparse.Namespace) -> int:
    """Print ``export`` lines for a POSIX shell."""
    cli = open_cli()
    print(f"export ARDUINO_CONFIG_FILE={shlex.quote(str(cli.config))}")
    print(f'export PATH={shlex.quote(str(cli.binary.parent))}:"$PATH"')
    return 0
