"""The README's commands and its example, run as they are printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import process
from harness.boards.board import Lane
from harness.machine.doctor import why_not
from tests.documents import ROOT, blocks, commands, text_of
from tests.programs import average_pool_program, linear_program
from tests.registrations import library

README = text_of("README.md")
PROGRAMS = Path(sys.executable).parent
DEMO_TIMEOUT_S = 900.0
"""A cold demo took under two minutes on two cores; a busy machine is slower."""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """A shell with the bench on PATH, no checkout, and boards of its own, gone afterwards."""
    empty = tmp_path / "config.toml"
    empty.write_text("", encoding="utf-8")
    with TemporaryDirectory(prefix="hil") as run_dir:
        made = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ARDUINO_")},
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "HIL_CONFIG": str(empty),
            "HIL_EXECUTORCH": "",
            "HIL_RUN_DIR": run_dir,
        }
        yield made
        shell("hil emulate --all", made)


def shell(
    script: str,
    environment: Mapping[str, str],
    *,
    cwd: Path = ROOT,
    code: int = 0,
    timeout_s: float = 120.0,
) -> str:
    """What the script printed; it must end with ``code``."""
    done = process.run(
        ("bash", "-euo", "pipefail", "-c", script), timeout_s=timeout_s, env=environment, cwd=cwd
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def block_with(command: str) -> str:
    """The README's shell block that holds ``command``."""
    (found,) = (each for each in blocks(README, "sh") if command in commands(each))
    return found


def printed_rows(block: str) -> list[tuple[str, ...]]:
    """Board, subject and verdict of each line of a table as the README shows it."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in block.splitlines()]
    return [tuple(cells[:3]) for cells in lines if len(cells) > 3 and cells[0] != "board"]


def test_activated_environment_has_the_commands(environment: Mapping[str, str]) -> None:
    if not (ROOT / ".venv/bin/activate").is_file():
        pytest.skip("this interpreter is not the set-up's: there is no .venv")
    said = shell(". .venv/bin/activate; command -v hil pytest", environment)
    assert said.splitlines() == [str(ROOT / ".venv/bin/hil"), str(ROOT / ".venv/bin/pytest")]


def test_doctor_and_boards(environment: Mapping[str, str]) -> None:
    assert "host: can run here" in shell("hil doctor", environment)
    assert "hil:virtual:m33" in shell("hil boards", environment)
    assert json.loads(shell("hil boards --json", environment))
    assert json.loads(shell("hil doctor --json --lane host", environment))["lanes"]["host"]


@pytest.mark.timeout(DEMO_TIMEOUT_S)
def test_make_demo_is_the_set_up_and_then_the_demo(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    planned = shell("make -n demo", environment)
    assert re.search(r"tools/setup\n.*\.venv/bin/hil demo", planned)
    if (reason := why_not(Lane.EMULATED)) is not None:
        pytest.skip(f"the demo shows two boards, and here: {reason}")
    out = tmp_path / "out"
    shell(f"hil demo --out '{out}'", environment, timeout_s=DEMO_TIMEOUT_S)
    (shown,) = (each for each in blocks(README, "text") if "\nhost " in each)
    measured = [
        (name, row["subject"], row["verdict"])
        for name in ("host", "m33")
        for row in json.loads((out / name / "run.json").read_text("utf-8"))["measurements"]
        if row["verdict"] != "skipped"
    ]
    assert printed_rows(shown) == measured


def test_a_virtual_board_in_ones_own_shell(environment: Mapping[str, str]) -> None:
    script = block_with("hil emulate m33")
    if why_not(Lane.EMULATED) is not None:
        script = script.replace("m33", "host").replace("HILM33", "HILHOST")
    kind = "host" if "hil emulate host" in script else "m33"
    plug_in, rest = script.split("\n", 1)
    said = shell(plug_in, environment)
    found = re.fullmatch(r"plugged in (HIL\w+) \((\S+)\) at (\S+)\n", said)
    assert found is not None, said
    serial_number, fqbn, port = found.groups()
    assert fqbn == f"hil:virtual:{kind}"
    said = shell(rest.replace("PORT", f"'{port}'"), environment, timeout_s=300)
    assert re.search(rf"{re.escape(port)} .*{fqbn}", said), "arduino-cli board list"
    assert re.search(rf"flashed \d+ bytes to {serial_number}", said)
    assert f"{serial_number}  {fqbn}  {port}\n" in said, "hil emulate --list"
    assert said.endswith(f"unplugged {serial_number}\n")


def test_preflight_of_a_model(environment: Mapping[str, str], tmp_path: Path) -> None:
    (command,) = commands(block_with("hil preflight MODEL.pte --board m33 --library DIR"))
    folder = library(tmp_path / "library")
    model = tmp_path / "model.pte"
    command = command.replace("MODEL.pte", f"'{model}'").replace("DIR", f"'{folder}'")
    model.write_bytes(linear_program(bias=True).build())
    assert f"{model}: ok\n" in shell(command, environment)
    model.write_bytes(average_pool_program(scratch_bytes=0).build())
    assert f"{model}: target-skew\n" in shell(command, environment, code=1)
    model.write_bytes(b"not a program")
    assert f"{model}: not-a-program\n" in shell(command, environment, code=1)


def test_plugin_example_runs_as_it_is_printed(
    environment: Mapping[str, str], tmp_path: Path
) -> None:
    (sketch,), (test,) = blocks(README, "cpp"), blocks(README, "python")
    for text, comment in ((sketch, r"// (\S+)\n"), (test, r"# (\S+)\n")):
        named = re.match(comment, text)
        assert named is not None, "the block's first line names its file"
        path = tmp_path / named[1]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (command,) = commands(block_with("pytest --hil-board host"))
    said = shell(command, environment, cwd=tmp_path, timeout_s=300)
    assert "1 passed" in said
    (record,) = tmp_path.glob("hil-out/*-host/run.json")
    assert json.loads(record.read_text(encoding="utf-8"))["verdict"] == "passed"

    # The same test against a board that answers wrongly is a failure, and says so.
    wrong = (tmp_path / "test_greeter.py").read_text(encoding="utf-8").replace('b"Ada"', 'b"Eve"')
    (tmp_path / "test_greeter.py").write_text(wrong, encoding="utf-8")
    assert "1 failed" in shell(command, environment, cwd=tmp_path, code=1)
