"""How the plugin and ``hil test`` treat people: other projects, wrong options, exit codes."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness import process
from harness.boards.board import Lane, find_board
from harness.machine.doctor import why_not
from harness.report.verdict import EXIT_NOTHING_RAN, EXIT_PASSED, EXIT_USAGE
from tests.child_run import HIL, PYTEST, ChildBench, Outcome

THEIRS = "test_theirs.py::test_theirs"
FOREIGN = """
import sys
import pytest

@pytest.fixture
def model():
    return "theirs"

@pytest.fixture
def board():
    return "theirs, too"

@pytest.fixture(params=["a", "b"])
def runner(request):
    return request.param

def test_theirs(model, board, runner):
    assert (model, board) == ("theirs", "theirs, too")

def test_nothing_of_the_bench_was_imported():
    ours = {name for name in sys.modules if name.partition(".")[0] == "harness"}
    assert ours == {"harness", "harness.pytest_plugin"}, ours
    assert not {"torch", "rich", "serial", "elftools", "pexpect"} & set(sys.modules)
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A repository that has nothing to do with boards."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "test_theirs.py").write_text(FOREIGN, encoding="utf-8")
    return folder


def pytest_in(child: ChildBench, folder: Path, *words: str) -> Outcome:
    return child.run((*PYTEST, "-q", "-p", "no:cacheprovider", *words), cwd=folder)


def test_a_project_that_does_not_use_the_bench_is_not_disturbed(
    child: ChildBench, foreign: Path
) -> None:
    run = pytest_in(child, foreign)
    assert run.code == 0, run.shown
    assert "3 passed" in run.shown
    assert "evidence" not in run.shown
    assert not (foreign / "hil-out").exists()


def test_own_fixtures_win_on_a_board_as_well(child: ChildBench, foreign: Path) -> None:
    run = pytest_in(child, foreign, "--hil-board=host", f"--hil-out={child.out}", THEIRS)
    assert "2 passed" in run.shown, run.shown


def test_the_plugin_imports_nothing_but_pytest() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import harness.pytest_plugin;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = process.run((sys.executable, "-c", code), timeout_s=60)
    assert done.stdout.strip() == "['harness', 'harness.pytest_plugin']", done.stderr


def test_without_a_board_the_fixtures_say_one_sentence(child: ChildBench, project: Path) -> None:
    run = pytest_in(child, project, "-k", "test_greets")
    assert run.code == 1
    assert "this test needs a board and none was named: give --hil-board NAME" in run.shown
    assert "Traceback" not in run.shown
    assert "pytest_plugin.py" not in run.shown


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--hil-board=hsot", "there is no board 'hsot'; did you mean 'host'?"),
        ("--hil-core-version=9", "board 'host' has no core version '9'"),
        ("--hil-out=/dev/null/out", "cannot be written to '/dev/null/out': Not a directory"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    child: ChildBench, foreign: Path, option: str, message: str
) -> None:
    run = pytest_in(child, foreign, "--hil-board=host", f"--hil-out={child.out}", option)
    assert run.code == int(pytest.ExitCode.USAGE_ERROR), run.shown
    assert message in run.shown
    assert "remedy: " in run.shown
    assert "Traceback" not in run.shown


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("hsot",), EXIT_USAGE, "did you mean 'host'?"),
        (("host", "--out", "/dev/null/out"), EXIT_USAGE, "/dev/null/out"),
        (("host", "--", "/no/such/file.py"), EXIT_USAGE, "/no/such/file.py"),
        (("host", "-k", "no_such_case"), EXIT_NOTHING_RAN, "deselected"),
        (("host", "-k", "test_examples and fits and AddModel"), EXIT_NOTHING_RAN, "skipped 1: "),
        (("host", "-k", "test_echo"), EXIT_PASSED, "1 passed"),
    ],
)
def test_exit_codes_of_hil_test(
    child: ChildBench, words: tuple[str, ...], code: int, message: str
) -> None:
    if reason := why_not(Lane.HOST):
        pytest.skip(reason)
    # No checkout, whatever this machine is set up with: the wheel's runtime has no examples.
    without = replace(child, extra={**child.extra, "HIL_CONFIG": "/dev/null", "HIL_EXECUTORCH": ""})
    before, dashes, after = (part for part in _split(words))
    run = without.run((*HIL, "test", *before, *_out(child, before), *dashes, *after))
    assert run.code == code, run.shown
    assert message in run.shown
    assert "Traceback" not in run.shown


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at : at + 1], words[at + 1 :]


def _out(child: ChildBench, words: tuple[str, ...]) -> tuple[str, ...]:
    return () if "--out" in words else ("--out", str(child.out))


def test_listing_tests_is_no_run(child: ChildBench, foreign: Path) -> None:
    run = pytest_in(child, foreign, "--hil-board=host", f"--hil-out={child.out}", "--collect-only")
    assert run.code == 0, run.shown


def test_every_option_has_our_prefix(child: ChildBench, foreign: Path) -> None:
    run = pytest_in(child, foreign, "--help")
    (group,) = re.findall(r"Hardware-in-the-loop tests.*?\n\n", run.shown, re.S)
    options = re.findall(r"^  (-\S+)", group, re.M)
    assert len(options) >= 9
    assert all(each.startswith("--hil-") for each in options), options


def test_a_board_file_of_ones_own_is_a_board(child: ChildBench, foreign: Path) -> None:
    text = find_board("host").path.read_text(encoding="utf-8")
    mine = foreign / "mine.toml"
    mine.write_text(text.replace('name = "host"', 'name = "mine"'), encoding="utf-8")
    run = pytest_in(child, foreign, f"--hil-board={mine}", f"--hil-out={child.out}", THEIRS)
    assert run.code == 0, run.shown
    assert run.record["board"] == "mine"


def test_a_test_file_that_cannot_be_read_is_no_success(child: ChildBench, foreign: Path) -> None:
    (foreign / "test_broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    run = pytest_in(child, foreign, "--hil-board=host", f"--hil-out={child.out}")
    assert run.code == 3, run.shown
    assert run.record["interrupted"] is False


def test_an_earlier_run_in_the_same_folder_is_not_mixed_in(
    child: ChildBench, foreign: Path
) -> None:
    (child.out / "serial").mkdir(parents=True)
    (child.out / "serial" / "serial.rx.bin").write_bytes(b"old")
    (child.out / "run.json").write_text("{}")
    run = pytest_in(child, foreign, "--hil-board=host", f"--hil-out={child.out}", THEIRS)
    assert not (child.out / "serial" / "serial.rx.bin").exists()
    assert run.record["verdict"] == "passed"
    assert ".reserved" not in run.record["files"]
