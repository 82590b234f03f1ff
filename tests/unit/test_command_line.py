"""The front door: every command is there, and none pays for another's imports."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from harness import process
from harness.cli import COMMANDS, _adders, main

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


def test_a_defect_of_the_bench_is_one_sentence_and_keeps_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken() -> NoReturn:
        raise ZeroDivisionError("no such thing\x1b[2J")

    monkeypatch.setattr("harness.boards.command.load_boards", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["boards"]) == 3
    shown = capsys.readouterr().err
    assert "the bench itself is broken: ZeroDivisionError: no such thing\\x1b[2J" in shown
    assert "Traceback" not in shown
    (kept,) = tmp_path.glob("hil-traceback-*.txt")
    assert kept.name in shown
    assert "ZeroDivisionError" in kept.read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--executorch", "--library"])
def test_a_path_that_is_none_ends_a_run_before_it_begins(option: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = process.run(
        [
            *(sys.executable, "-m", "harness.cli", "test", "host", "--out", str(out)),
            *(option, str(tmp_path / "nowhere")),
        ],
        timeout_s=60,
    )
    assert done.returncode == 2, done.tail()
    assert "nowhere" in done.stderr
    assert "remedy:" in done.stderr
    assert "passed" not in done.stdout
