"""``hil doctor``: what each lane needs here, found or missing, and the fix for each."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from harness.boards.board import Lane
from harness.machine.config import load_config
from harness.machine.doctor import ALL, Check, Examination, examine


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil doctor`` into the command line."""
    parser = commands.add_parser(
        "doctor",
        help="what each lane needs here, found or missing, and the fix",
        description="Exits with 1 when a lane that was asked for with --lane cannot run here.",
    )
    parser.add_argument(
        "--lane",
        action="append",
        choices=[lane.value for lane in Lane],
        help="only what this lane needs; may be given several times",
    )
    parser.add_argument("--executorch", type=Path, metavar="DIR", help="an ExecuTorch checkout")
    parser.add_argument("--json", action="store_true", help="as data")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the examination; 1 when a lane that was asked for cannot run, else 0."""
    asked = tuple(lane for lane in Lane if lane.value in (arguments.lane or ()))
    lanes = asked or ALL
    examination = examine(lanes, config=load_config(executorch=arguments.executorch))
    if arguments.json:
        print(json.dumps(as_data(examination, lanes), indent=1))
    else:
        print("\n".join(as_lines(examination, lanes)))
    return int(any(not examination.can_run(lane) for lane in asked))


def as_data(examination: Examination, lanes: tuple[Lane, ...]) -> dict[str, object]:
    """The examination as plain data: per lane whether it can run and what keeps it, and all."""
    return {
        "lanes": {
            lane.value: {
                "can_run": examination.can_run(lane),
                "blocked_by": [check.name for check in examination.blocking(lane)],
            }
            for lane in lanes
        },
        "checks": [
            asdict(check) | {"ok": check.ok, "lanes": [lane.value for lane in check.lanes]}
            for check in examination.checks
        ],
    }


def as_lines(examination: Examination, lanes: tuple[Lane, ...]) -> list[str]:
    """The examination for a person: every check with its fix, and a line per lane at the end."""
    lines: list[str] = []
    for check in examination.checks:
        lines += _lines(check)
    lines.append("")
    for lane in lanes:
        blocking = examination.blocking(lane)
        names = ", ".join(check.name for check in blocking)
        lines.append(f"{lane.value}: " + (f"cannot run here: {names}" if names else "can run here"))
    return lines


def _lines(check: Check) -> list[str]:
    if check.ok:
        return [f"found    {check.name}: {check.found}"]
    word = "MISSING" if check.required else "without"
    lanes = ", ".join(lane.value for lane in check.lanes)
    return [
        f"{word:8} {check.name} ({lanes}): {check.problem}",
        f"         fix: {check.remedy}",
    ]
