from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness.boards.board import find_board
from harness.errors import CapabilityMissing, ToolError
from harness.machine.requirement import CROSS_CXX, GIT, QEMU, Requirement, read_version
from harness.machine.tool import (
    ARDUINO_CLI_VERSION,
    Tool,
    arduino_cli,
    built_arduino_cli,
    find,
    find_arduino_cli,
    find_ctags,
    find_picolibc,
    find_picolibc_libstdcxx,
    qemu_machines,
    toolchain_identity,
)

CLI_SAYS = "arduino-cli  Version: {} Commit: abc Date: 2026"


@pytest.fixture
def bin_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, empty; the bench's cache is empty, too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return folder


def put(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.5.1", (1, 5, 1)),
        ("v7.2", (7, 2)),
        ("1.5.0-rc.1", (1, 5, 0)),
        ("12.2.1 20221205", (12, 2, 1)),
        ("nightly-20260101", None),
        ("", None),
    ],
)
def test_leading_numbers_are_the_version(text: str, version: tuple[int, ...] | None) -> None:
    assert read_version(text) == version


@pytest.mark.parametrize(
    ("least", "below", "text"),
    [
        ((1, 1, 0), (2,), "1.1.0 or newer, below 2"),
        ((12,), None, "12 or newer"),
        (None, (2,), "below 2"),
        (None, None, "any version"),
    ],
)
def test_a_range_is_said_in_words(
    least: tuple[int, ...] | None, below: tuple[int, ...] | None, text: str
) -> None:
    assert Requirement("x", "x", (), "", least=least, below=below).range_text == text


def test_a_program_is_found_with_its_version(bin_dir: Path) -> None:
    path = put(bin_dir / "git", "echo git version 2.39.5")
    assert find(GIT) == Tool("git", path, "2.39.5")


@pytest.mark.usefixtures("bin_dir")
def test_a_missing_program_names_its_package() -> None:
    with pytest.raises(CapabilityMissing, match="'qemu-system-arm' is not on PATH") as raised:
        find(QEMU)
    assert "package 'qemu-system-arm'" in raised.value.remedy


def test_an_old_program_is_refused_with_the_range_and_its_reason(bin_dir: Path) -> None:
    put(bin_dir / "arm-none-eabi-g++", "echo 9.3.1")
    with pytest.raises(ToolError, match=r"is version '9\.3\.1'; needed is 12 or newer") as raised:
        find(CROSS_CXX)
    assert raised.value.evidence == (CROSS_CXX.reason,)


def test_a_program_that_fails_is_refused_with_what_it_said(bin_dir: Path) -> None:
    put(bin_dir / "git", "echo cannot load libz >&2; exit 127")
    with pytest.raises(ToolError, match="does not say its version: it exited with 127") as raised:
        find(GIT)
    assert raised.value.evidence == ("cannot load libz",)


def test_arduino_cli_on_path_wins(bin_dir: Path) -> None:
    on_path = put(bin_dir / "arduino-cli", f"echo '{CLI_SAYS.format('1.3.0')}'")
    put(built_arduino_cli(), f"echo '{CLI_SAYS.format(ARDUINO_CLI_VERSION)}'")
    assert arduino_cli() == Tool("arduino-cli", on_path, "1.3.0")


@pytest.mark.parametrize("version", ["0.35.3", "1.0.4", "2.0.0", "0.0.0-git", "nightly-1"])
def test_arduino_cli_outside_the_range_gives_way_to_the_built_one(
    bin_dir: Path, version: str
) -> None:
    put(bin_dir / "arduino-cli", f"echo '{CLI_SAYS.format(version)}'")
    built = put(built_arduino_cli(), f"echo '{CLI_SAYS.format(ARDUINO_CLI_VERSION)}'")
    assert find_arduino_cli() == built


def test_no_arduino_cli_says_why_each_was_refused(bin_dir: Path) -> None:
    on_path = put(bin_dir / "arduino-cli", f"echo '{CLI_SAYS.format('0.35.3')}'")
    put(built_arduino_cli(), "exit 1")
    with pytest.raises(
        ToolError, match=r"no arduino-cli that will do \(1\.1\.0 or newer"
    ) as raised:
        find_arduino_cli()
    assert raised.value.evidence == (
        f"{str(on_path)!r} is version '0.35.3'; needed is 1.1.0 or newer, below 2",
        f"{str(built_arduino_cli())!r} does not say its version: it exited with 1",
    )


def test_asking_arduino_cli_its_version_makes_nothing_in_the_home(
    bin_dir: Path, tmp_path: Path
) -> None:
    put(
        bin_dir / "arduino-cli",
        f'[ "$ARDUINO_DIRECTORIES_DATA" = "{tmp_path}/cache/arduino/version" ] || exit 9\n'
        f"echo '{CLI_SAYS.format('1.5.1')}'",
    )
    assert arduino_cli().version == "1.5.1"


def test_ctags_is_optional_to_the_finder(bin_dir: Path) -> None:
    assert find_ctags() is None
    path = put(bin_dir / "arduino-ctags", "true")
    assert find_ctags() == path


def test_picolibc_is_missing_when_the_compiler_echoes_the_bare_name(bin_dir: Path) -> None:
    compiler = Tool("arm-none-eabi-g++", put(bin_dir / "cxx", "echo picolibc.specs"), "12")
    with pytest.raises(CapabilityMissing, match="has no picolibc") as raised:
        find_picolibc(compiler)
    assert "picolibc-arm-none-eabi" in raised.value.remedy


def test_libstdcxx_is_looked_for_where_the_specs_say(bin_dir: Path, tmp_path: Path) -> None:
    root = tmp_path / "lib" / "picolibc" / "arm-none-eabi"
    specs = tmp_path / "picolibc.specs"
    specs.write_text(f"*cpp:\n-isystem %{{-p=*:%*/include/; :{root}/include}}\n", encoding="utf-8")
    compiler = Tool("arm-none-eabi-g++", put(bin_dir / "cxx", f"echo {specs}"), "12")
    with pytest.raises(CapabilityMissing, match=r"no libstdc\+\+ for picolibc"):
        find_picolibc_libstdcxx(compiler)
    library = root / "lib" / "libstdc++.a"
    library.parent.mkdir(parents=True)
    library.touch()
    assert find_picolibc_libstdcxx(compiler) == library


def test_machines_are_the_first_words_after_the_heading(bin_dir: Path) -> None:
    script = "printf 'Supported machines are:\\nmps2-an505  ARM MPS2\\nnone  empty\\n'"
    qemu = Tool("qemu-system-arm", put(bin_dir / "qemu-system-arm", script), "7.2")
    assert qemu_machines(qemu) == {"mps2-an505", "none"}


def test_qemu_that_fails_is_no_qemu_without_machines(bin_dir: Path) -> None:
    qemu = Tool("qemu-system-arm", put(bin_dir / "qemu-system-arm", "echo no; exit 1"), "7.2")
    with pytest.raises(ToolError, match="cannot list its machines"):
        qemu_machines(qemu)


def test_toolchain_identity_changes_with_the_compiler(bin_dir: Path) -> None:
    board = find_board("m33")
    assert toolchain_identity(board) == ""
    compiler = put(bin_dir / "arm-none-eabi-g++", "echo 12.2.1")
    before = toolchain_identity(board)
    assert before == toolchain_identity(board)
    put(compiler, "echo 12.3.1 # another size")
    assert toolchain_identity(board) != before
