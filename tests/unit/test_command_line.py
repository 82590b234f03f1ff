"""The front door: every command is there, and none pays for another's imports."""

from __future__ import annotations

import argparse
import sys

import pytest

from harness import process
from harness.cli import COMMANDS, _adders

HEAVY = ("torch", "pytest", "rich", "elftools", "serial", "harness.pipeline")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_adds_its_own_parser(name: str) -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    for add in _adders(name):
        add(commands)
    assert list(commands.choices) == [name]


@pytest.mark.parametrize("word", ["", "--help", "nonsense"])
def test_the_overview_has_them_all(word: str) -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    for add in _adders(word):
        add(commands)
    assert list(commands.choices) == list(COMMANDS)


@pytest.mark.parametrize("name", ["preflight", "boards", "test", "doctor"])
def test_a_command_starts_without_what_only_others_need(name: str) -> None:
    code = (
        "import sys\nfrom harness.cli import main\n"
        f"try: main([{name!r}, '--help'])\nexcept SystemExit: pass\n"
        f"print('loaded', [each for each in {HEAVY!r} if each in sys.modules])"
    )
    done = process.run((sys.executable, "-c", code), timeout_s=60)
    assert done.stdout.splitlines()[-1] == "loaded []", done.stderr
