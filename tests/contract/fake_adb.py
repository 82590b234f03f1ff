"""Programs that stand in an ``adb``'s place: real child processes, each with one manner."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HEAD = "List of devices attached"


@dataclass(frozen=True)
class Answer:
    """What one command leaves."""

    stdout: str = ""
    stderr: str = ""
    code: int = 0


def script(folder: Path, body: str) -> Path:
    """A shell script called ``adb``."""
    return _program(folder, f"#!/bin/sh\n{body}\n")


def python(folder: Path, body: str) -> Path:
    """A Python program called ``adb``; starts in a few hundredths of a second."""
    return _program(folder, f"#!{sys.executable} -ISE\n{body}\n")


def board(folder: Path, answers: Mapping[str, Answer], *, serial_number: str) -> Path:
    """An adb that sees one board; ``answers`` by what its shell is told, joined with blanks.

    What is not among them fails as in a shell.  Every command line is kept in ``calls.txt``.
    """
    table = {key: [each.stdout, each.stderr, each.code] for key, each in answers.items()}
    (folder / "answers.json").write_text(json.dumps(table))
    return python(
        folder,
        f"""
import json, sys
folder = {str(folder)!r}
words = sys.argv[1:]
with open(folder + "/calls.txt", "a") as calls:
    print(json.dumps(words), file=calls)
if words == ["devices"]:
    print("{HEAD}\\n{serial_number}\\tdevice\\n")
    sys.exit(0)
if words[:3] != ["-s", {serial_number!r}, "shell"]:
    sys.exit("error: device '" + words[1] + "' not found")
told = " ".join(words[3:])
with open(folder + "/answers.json") as stream:
    answers = json.load(stream)
out, err, code = answers.get(told, ["", "sh: 1: " + words[3] + ": not found\\n", 127])
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
""",
    )


def calls(folder: Path) -> list[list[str]]:
    """The command lines that :func:`board` was started with."""
    lines = (folder / "calls.txt").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _program(folder: Path, text: str) -> Path:
    path = folder / "adb"
    path.write_text(text)
    path.chmod(0o755)
    return path
