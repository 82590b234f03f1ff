"""The documents say what the code does: every command is run somewhere, every name exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from harness import cli, pytest_plugin
from harness.boards.board import load_boards
from harness.model.registry import MODELS
from harness.preflight.finding import PreflightVerdict
from harness.report import verdict
from tests.documents import (
    ROOT,
    anchors,
    blocks,
    commands,
    documents,
    links,
    table_rows,
    text_of,
)

REALLY = "tests/host/test_readme_commands.py"
SUITE = "tests/emulated/test_suite.py"

RUN_BY = {
    "make demo": f"{REALLY}::test_make_demo_is_the_set_up_and_then_the_demo",
    "make test": ".ci/run: make test",
    ". .venv/bin/activate": f"{REALLY}::test_activated_environment_has_the_commands",
    "hil doctor": f"{REALLY}::test_doctor_and_boards",
    "hil boards": f"{REALLY}::test_doctor_and_boards",
    "hil test m33 --executorch DIR": (
        f"{SUITE}::test_with_a_checkout_the_real_boards_digits_come_out"
    ),
    "hil test unoq --virtual --core-version 0.55.2 --core-version 0.90.0": (
        f"{SUITE}::test_the_uno_qs_stand_in_on_both_core_versions_without_a_checkout"
    ),
    "hil arena m33": (
        "tests/emulated/test_arena.py::test_the_readmes_command_finds_the_published_band"
    ),
    "hil replay DIR": "tests/emulated/test_replay.py::test_the_readmes_commands_pack_and_replay",
    "hil pack DIR": "tests/emulated/test_replay.py::test_the_readmes_commands_pack_and_replay",
    "hil emulate m33": f"{REALLY}::test_a_virtual_board_in_ones_own_shell",
    'eval "$(hil env)"': f"{REALLY}::test_a_virtual_board_in_ones_own_shell",
    "arduino-cli board list": f"{REALLY}::test_a_virtual_board_in_ones_own_shell",
    "arduino-cli compile -b hil:virtual:m33 sketches/echo": (
        f"{REALLY}::test_a_virtual_board_in_ones_own_shell"
    ),
    "arduino-cli upload -b hil:virtual:m33 -p PORT sketches/echo": (
        f"{REALLY}::test_a_virtual_board_in_ones_own_shell"
    ),
    "hil emulate --list": f"{REALLY}::test_a_virtual_board_in_ones_own_shell",
    "hil emulate --unplug HILM330001": f"{REALLY}::test_a_virtual_board_in_ones_own_shell",
    "hil preflight MODEL.pte --board m33 --library DIR": f"{REALLY}::test_preflight_of_a_model",
    "pytest --hil-board host": f"{REALLY}::test_plugin_example_runs_as_it_is_printed",
    "pytest tests/unit": "Makefile: .venv/bin/python -m pytest",
    "pytest tests/contract": "Makefile: .venv/bin/python -m pytest",
    "pytest tests/host": "Makefile: .venv/bin/python -m pytest",
    "pytest tests/plugin": "Makefile: .venv/bin/python -m pytest",
    "pytest tests/emulated": "Makefile: .venv/bin/python -m pytest",
    "ruff check . && mypy": "Makefile: .venv/bin/ruff check .",
}
"""Every command of README and CONTRIBUTING, and what runs it: a test, or a line of a file of CI."""

MACHINE_PATH = re.compile(
    r"(?<![\w.~-])(?!/opt/openocd\b|/tmp/remoteocd\b|/var/lock\b|/tmp(?![\w/]))"
    r"/(?:home|root|Users|work|tmp|mnt|srv|opt|var)\b"
)
"""A path that other machines have not.  Those let through are every Uno Q's, or every system's."""


def unknown_commands(text: str, known: set[str]) -> list[str]:
    return [each for block in blocks(text, "sh") for each in commands(block) if each not in known]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_command_is_run_by_somebody(name: str) -> None:
    text = text_of(name)
    assert blocks(text, "sh"), "a document without commands proves nothing"
    assert unknown_commands(text, set(RUN_BY)) == []


def test_a_command_that_nobody_runs_is_found() -> None:
    text = "```sh\nhil doctor    # looks\n\nhil frobnicate\n```\n"
    assert unknown_commands(text, {"hil doctor"}) == ["hil frobnicate"]


def test_no_command_is_hidden_in_a_block_of_another_kind() -> None:
    shells = [
        f"{path.name}: {kind}"
        for path in documents()
        for kind in re.findall(r"^```(\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        if kind not in {"sh", "text", "cpp", "python", "toml", "json"}
    ]
    assert shells == []


@pytest.mark.parametrize(("command", "runner"), RUN_BY.items())
def test_what_runs_a_command_exists(command: str, runner: str) -> None:
    assert any(
        command in commands(block)
        for name in ("README.md", "CONTRIBUTING.md")
        for block in blocks(text_of(name), "sh")
    ), "no document has this command any more"
    if "::" in runner:
        file, function = runner.split("::")
        assert re.search(rf"^def {function}\(", text_of(file), re.MULTILINE)
    else:
        file, line = runner.split(": ", 1)
        assert line in text_of(file)


def test_ci_runs_every_folder_that_a_command_names() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))
    testpaths = project["tool"]["pytest"]["ini_options"]["testpaths"]
    named = [each.split()[1] for each in RUN_BY if each.startswith("pytest tests/")]
    assert named
    assert set(named) <= set(testpaths)


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_names_a_place_of_one_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert MACHINE_PATH.findall(text) == []
    hosts = set(re.findall(r"https?://([^/\s)]+)", text))
    assert hosts <= {"github.com"}


def test_a_machine_path_is_found() -> None:
    assert MACHINE_PATH.search("see /home/me/x")
    assert MACHINE_PATH.search("in /tmp/x, /opt/x")
    assert not MACHINE_PATH.search("/opt/openocd/bin/openocd, else in /tmp")
    assert not MACHINE_PATH.search("at .../boards/X/tty, in docs/work/x or /dev/ttyACM0")


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_named_files_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for file, anchor in links(text):
        target = path.parent / file if file else path
        assert target.exists(), file
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), anchor
    for named in re.findall(r"`((?:harness|boards|docs|tests|sketches|tools)/[\w./-]+)`", text):
        assert (ROOT / named).exists(), named


def test_commands_that_documents_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    offered = set(re.findall(r"^    (\w+)\s", capsys.readouterr().out, re.MULTILINE))
    named = {
        word
        for path in documents()
        for word in re.findall(r"`hil (\w+)", path.read_text(encoding="utf-8"))
    }
    assert named
    assert named <= offered


def test_options_fixtures_and_markers_of_the_plugin_are_in_its_page() -> None:
    page = text_of("docs/plugin.md")
    source = Path(pytest_plugin.__file__).read_text(encoding="utf-8")
    options = set(re.findall(r'addoption\(\s*"(--hil-[\w-]+)"', source))
    fixtures = set(re.findall(r"@pytest\.fixture[^\n]*\ndef (\w+)\(", source))
    markers = set(re.findall(r'"markers",\s*"(\w+)\(', source))
    assert options
    assert fixtures
    assert markers
    everywhere = set(
        re.findall(r"--hil-[\w-]+", "".join(p.read_text("utf-8") for p in documents()))
    )
    assert set(re.findall(r"`(--hil-[\w-]+)", page)) == options
    assert everywhere <= options
    assert {row[0].strip("`") for row in table_rows(page, "Fixtures")} == fixtures
    assert {row[0].strip("`").split("(")[0] for row in table_rows(page, "Markers")} == markers


def test_every_stage_of_a_diagnosis_is_explained() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "harness").rglob("*.py")]
    pattern = re.compile(r'(?:\b_?in_stage\(|\b_stage\(|^    stage = )"(\w+)"', re.MULTILINE)
    named = {stage for text in sources for stage in pattern.findall(text)}
    assert "library" in named
    rows = table_rows(text_of("docs/verdicts.md"), "Stages")
    assert named <= set(re.findall(r"\w+", " ".join(row[0] for row in rows)))


def test_verdicts_and_exit_codes_are_in_their_page() -> None:
    page = text_of("docs/verdicts.md")
    words = [row[0].strip("`") for row in table_rows(page, "Preflight's verdicts")]
    assert words == [each.value for each in PreflightVerdict]
    codes = {int(row[0]) for row in table_rows(page, "Exit codes")}
    assert codes == {value for name, value in vars(verdict).items() if name.startswith("EXIT_")}
    assert all(f"`{kind.value}`" in page for kind in verdict.Kind)
    assert all(re.search(rf"^  {code}\s", cli.EXIT_CODES, re.MULTILINE) for code in codes)


def test_boards_and_models_are_in_the_documents() -> None:
    lanes = text_of("README.md").split("## Boards and lanes", 1)[1]
    assert [board.name for board in load_boards() if f"`{board.name}`" not in lanes] == []
    rows = text_of("docs/models.md").split("## How", 1)[0]
    assert [name for name in MODELS if f"\n| `{name}` |" not in rows] == []


def test_figures_are_those_of_the_board_files() -> None:
    boards = {board.name: board for board in load_boards()}
    ours, theirs = boards["m33"].default_core_version, boards["unoq"].core_version("0.90.0")
    rows = table_rows(
        text_of("docs/figures.md"), "Flash and RAM of upstream's three examples, unmodified"
    )
    assert [row[0] for row in rows] == [budget.sketch for budget in theirs.budgets]
    for row in rows:
        mine, other = ours.budget(row[0]), theirs.budget(row[0])
        assert mine is not None
        assert other is not None
        expected: list[int] = []
        for one, two in (
            (mine.measured_flash_bytes, other.measured_flash_bytes),
            (mine.measured_ram_bytes, other.measured_ram_bytes),
        ):
            expected += [one, two, two - one]
        assert row[1:] == [f"{number:,}" for number in expected]


def test_every_package_has_its_place_in_the_architecture() -> None:
    page = text_of("docs/architecture.md")
    packages = [each.parent.name for each in (ROOT / "harness").glob("*/__init__.py")]
    assert packages
    assert [name for name in packages if f"`harness/{name}/`" not in page] == []


def test_every_sketch_and_test_folder_is_described() -> None:
    for folder in ("sketches", "tests"):
        page = text_of(f"{folder}/README.md")
        inside = (each for each in (ROOT / folder).iterdir() if each.is_dir())
        names = [each.name for each in inside if each.name != "__pycache__"]
        assert names
        assert [name for name in names if f"| `{name}/` |" not in page] == []


def test_decisions_are_numbered_indexed_and_give_what_was_rejected() -> None:
    folder = ROOT / "docs/decisions"
    pages = sorted(folder.glob("[0-9]*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    index = (folder / "README.md").read_text(encoding="utf-8")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert f"({page.name})" in index
        assert all(f"**{part}.**" in text for part in ("Decision", "Why", "Rejected")), page.name
