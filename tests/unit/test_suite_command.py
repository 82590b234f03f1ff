"""``hil test`` as the pytest command line that it stands for, and on several core versions."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness import suite_command
from harness.cli import main
from harness.suite_command import _words, add_test_parser, pytest_arguments, run_test


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_test_parser(parser.add_subparsers())
    return parser.parse_args(["test", *words])


GIVEN = (
    *("unoq", "--executorch", "/e", "--library", "l.zip", "--root-ops", "aten::add.out"),
    *("--all-ops", "--core-version", "0.55.2", "--virtual", "--behave", "b.toml"),
    *("--bench", "lab.toml", "--port", "/dev/x", "--serial-number", "SN1", "-k", "echo", "-v"),
    *("--brief", "--out", "/o"),
)
"""Every option once."""


def test_every_option_reaches_pytest(tmp_path: Path) -> None:
    arguments = parsed(*GIVEN)
    assert None not in vars(arguments).values()
    made = pytest_arguments(arguments, tmp_path)
    for key, value in (
        ("--hil-executorch", "/e"),
        ("--hil-library", "l.zip"),
        ("--hil-root-ops", "aten::add.out"),
        ("--hil-core-version", "0.55.2"),
        ("--hil-behave", "b.toml"),
        ("--hil-bench", "lab.toml"),
        ("--hil-port", "/dev/x"),
        ("--hil-serial", "SN1"),
        ("-k", "echo"),
    ):
        assert made[made.index(key) + 1] == value
    assert {"--hil-board=unoq", "--hil-all-ops", "--hil-virtual", "--hil-brief", "-v"} <= set(made)
    assert "-q" not in made


def test_pytest_knows_every_option(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    made = pytest_arguments(parsed(*GIVEN), tmp_path)
    asked, unknown = pytestconfig._parser.parse_known_and_unknown_args(made)
    assert unknown == []
    assert (asked.hil_serial, asked.hil_port, asked.hil_all_ops) == ("SN1", "/dev/x", True)


def test_what_is_not_given_does_not_reach_pytest(tmp_path: Path) -> None:
    made = pytest_arguments(parsed("m33"), tmp_path)
    assert [word for word in made if word.startswith("--hil-")] == [
        "--hil-board=m33",
        f"--hil-out={tmp_path}",
    ]
    assert "-q" in made
    assert "-v" not in made


def test_a_run_of_one_core_version_is_asked_for_in_the_same_words() -> None:
    arguments = parsed(*GIVEN)
    assert parsed(*_words(arguments, Path("/o"))) == arguments


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of the runs; the second of them fails."""
    called: list[list[str]] = []

    def stream(argv: Sequence[str]) -> int:
        called.append(list(argv))
        out = Path(argv[argv.index("--out") + 1])
        out.mkdir(parents=True)
        version = argv[argv.index("--core-version") + 1]
        record = {
            "board": "unoq",
            "lane": "hardware",
            "core_version": version,
            "measurements": [{"subject": "echo", "verdict": "passed", "flash_bytes": 6488}],
        }
        (out / "run.json").write_text(json.dumps(record), encoding="utf-8")
        return 3 if len(called) == 2 else 0

    monkeypatch.setattr(suite_command, "_stream", stream)
    return called


def test_several_core_versions_run_in_turn_and_stand_side_by_side(
    streamed: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = parsed(
        *("unoq", "--virtual", "--core-version", "0.55.2", "--core-version", "0.90.0"),
        *("--out", str(tmp_path / "out"), "-k", "echo"),
    )
    arguments.pytest = ["--maxfail=1"]
    assert run_test(arguments) == 3
    versions = [argv[argv.index("--core-version") + 1] for argv in streamed]
    assert versions == ["0.55.2", "0.90.0"]
    for argv in streamed:
        assert {"--virtual", "--brief", "-k"} <= set(argv)
        assert argv[-2:] == ["--", "--maxfail=1"]
    shown = capsys.readouterr().out
    assert "unoq 0.55.2" in shown
    assert "unoq 0.90.0" in shown


def test_one_version_named_twice_is_one_run(
    streamed: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pytest, "main", lambda *_, **__: 0)
    arguments = parsed("unoq", "--core-version", "0.90.0", "--core-version", "0.90.0")
    arguments.out = str(tmp_path)
    run_test(arguments)
    assert streamed == []


def test_a_version_that_the_board_has_not_ends_before_any_run(
    streamed: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "unoq", "--core-version", "0.90.0", "--core-version", "0.1"]) == 2
    assert "has no core version '0.1'" in capsys.readouterr().err
    assert streamed == []


@pytest.mark.parametrize(("code", "ends"), [(130, 130), (2, 2), (0, 3), (-9, 3)])
def test_a_run_without_a_record_ends_the_others(
    code: int,
    ends: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(suite_command, "_stream", lambda _: code)
    words = ["test", "unoq", "--core-version", "0.90.0", "--core-version", "0.55.2"]
    assert main([*words, "--out", str(tmp_path / "out")]) == ends
    assert ("left no run.json" in capsys.readouterr().err) == (ends == 3)
