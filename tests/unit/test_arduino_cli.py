"""The exact command lines, and what is read from the JSON that comes back."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.arduino import core_command
from harness.arduino.cli import (
    ArduinoCli,
    board_list_arguments,
    compile_arguments,
    configuration,
    failure_text,
    link_to,
    read_json,
    upload_arguments,
)
from harness.arduino.core_home import PACKAGE_INDEX, cores_dir, real_home
from harness.arduino.port import Port, choose_port, read_ports
from harness.boards.board import find_board
from harness.errors import DeviceError, ToolError, UsageError
from harness.process import Completed


def test_compile() -> None:
    assert compile_arguments(
        fqbn="hil:virtual:m33",
        sketch=Path("/s/A"),
        build_path=Path("/b"),
        library=Path("/l/ExecuTorch"),
        properties={"a.b": "c d"},
        jobs=2,
    ) == (
        "compile", "--json", "--fqbn", "hil:virtual:m33", "--build-path", "/b", "--jobs", "2",
        "--library", "/l/ExecuTorch", "--build-property", "a.b=c d", "/s/A",
    )  # fmt: skip


def test_upload() -> None:
    assert upload_arguments(fqbn="hil:virtual:m33", address="/p/tty", input_dir=Path("/f")) == (
        "upload", "--json", "--discovery-timeout", "10s", "--fqbn", "hil:virtual:m33",
        "-p", "/p/tty", "--input-dir", "/f",
    )  # fmt: skip


def test_board_list() -> None:
    assert board_list_arguments() == ("board", "list", "--json")


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "\x00", "[" * 100_000])
def test_what_is_not_a_json_object_is_a_fault(text: str) -> None:
    with pytest.raises(ToolError, match="'arduino-cli compile'"):
        read_json(text, command="compile")


def test_what_an_upload_tool_said_is_told_in_lines() -> None:
    said = '{"output": {"stdout": "Info\\nError: no target\\n", "stderr": "E2"}, "error": "E1"}'
    done = Completed(("x",), 1, "", said, 0.1)
    assert failure_text(done).split("\n") == ["", "Info", "Error: no target", "", "E2", "E1"]


def test_failure_text_is_found_on_either_stream() -> None:
    done = Completed(
        ("x",), 1, '{"compiler_err": "\\u001b[31mA", "error": "B"}', '{"error": "C"}', 0.1
    )
    assert failure_text(done) == "A\nB\nC"
    assert "plain" in failure_text(Completed(("x",), 1, "", "plain", 0.1))


ENTRY = {
    "port": {
        "address": "/dev/ttyACM0",
        "label": "/dev/ttyACM0",
        "properties": {"vid": "0x1209", "pid": "0x0033", "serialNumber": "HILM330001"},
    }
}
PORT = Port("/dev/ttyACM0", "0x1209", "0x0033", "HILM330001", "/dev/ttyACM0")


def test_ports_are_read_and_junk_is_passed_over() -> None:
    assert read_ports({"detected_ports": [ENTRY, {}, {"port": {"address": 3}}, None]}) == (PORT,)
    assert read_ports({"detected_ports": None}) == ()


def test_no_board() -> None:
    board = find_board("m33")
    with pytest.raises(DeviceError, match=r"no board 'm33' \(0x1209:0x0033\) is plugged in") as got:
        choose_port([], board, address=None, serial_number=None)
    assert "hil emulate m33" in got.value.remedy


def test_two_boards_match_and_are_both_named() -> None:
    other = Port("/dev/ttyACM1", "0x1209", "0x0033", "HILM330002", "x")
    board = find_board("m33")
    with pytest.raises(DeviceError, match="2 boards match 'm33': HILM330001, HILM330002"):
        choose_port([PORT, other], board, address=None, serial_number=None)
    assert choose_port([PORT, other], board, address=None, serial_number="HILM330002") == other
    assert choose_port([PORT, other], board, address="/dev/ttyACM0", serial_number=None) == PORT


def test_wrong_serial_number_lists_what_is_there() -> None:
    with pytest.raises(DeviceError, match="with serial number 'X' is plugged in") as got:
        choose_port([PORT], find_board("m33"), address=None, serial_number="X")
    assert "HILM330001" in got.value.evidence[0]


def test_the_platforms_tools_get_the_benchs_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARDUINO_DIRECTORIES_USER", "/elsewhere")
    monkeypatch.setenv("PATH", "/slow/shims:/usr/bin")
    environment = ArduinoCli(Path("/b"), Path("/c"), tmp_path).environment()
    assert environment["PATH"] == f"{tmp_path}/bin:/slow/shims:/usr/bin"
    assert "ARDUINO_DIRECTORIES_USER" not in environment


def test_a_link_is_moved_only_when_it_leads_elsewhere(tmp_path: Path) -> None:
    link = tmp_path / "bin" / "python3"
    link_to(link, Path("/old"))
    link_to(link, Path("/new"))
    before = link.lstat()
    link_to(link, Path("/new"))
    assert link.readlink() == Path("/new")
    assert link.lstat().st_ino == before.st_ino
    assert [each.name for each in link.parent.iterdir()] == ["python3"]


def test_only_a_home_that_installs_names_the_cores_index(tmp_path: Path) -> None:
    assert "additional_urls" not in configuration(tmp_path)
    text = configuration(tmp_path, indexes=(PACKAGE_INDEX,))
    assert text.endswith(
        "board_manager:\n  additional_urls:\n"
        '    - "https://downloads.arduino.cc/packages/package_zephyr_index.json"\n'
    )


def test_installing_a_core() -> None:
    # Source: arduino-cli 1.5, "core install" and "lib install" of its command reference.
    assert core_command.install_commands(find_board("unoq"), "0.90.0") == (
        ("core", "update-index"),
        ("core", "install", "arduino:zephyr@0.90.0"),
        ("lib", "update-index"),
        ("lib", "install", "Arduino_RouterBridge"),
    )


FAKE = """#!/bin/sh
# arduino-cli as far as an installation goes: $3 is the first word after the configuration.
config="$2"; shift 2
echo "$*" >> "{log}"
case "$*" in
  "{at}") {does};;
  "core install "*)
    version="${{3##*@}}"
    platform="$(dirname "$config")/data/packages/arduino/hardware/zephyr/$version"
    mkdir -p "$platform" && echo unoq.name=x > "$platform/boards.txt";;
esac
exit 0
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """An arduino-cli that does something else at one of its calls; returns its log."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    log, program = tmp_path / "log", tmp_path / "arduino-cli"

    def make(at: str = "never", does: str = "exit 0") -> Path:
        program.write_text(FAKE.format(log=log, at=at, does=does), encoding="utf-8")
        program.chmod(0o755)
        log.write_text("", encoding="utf-8")
        return log

    monkeypatch.setattr(core_command, "find_arduino_cli", lambda: program)
    return make


def install() -> Path:
    return core_command.install(find_board("unoq"), "0.90.0", progress=lambda _: None)


def test_a_core_is_installed_beside_its_place_and_moved_there(fake: Callable[..., Path]) -> None:
    log = fake()
    home = install()
    assert home == real_home("arduino:zephyr", "0.90.0")
    assert [line.split()[:2] for line in log.read_text(encoding="utf-8").splitlines()] == [
        ["core", "update-index"], ["core", "install"], ["lib", "update-index"], ["lib", "install"],
    ]  # fmt: skip
    # It names the folders where they are now.
    text = (home / "arduino-cli.yaml").read_text(encoding="utf-8")
    assert str(home / "data") in text
    assert ".installing" not in text
    log = fake()
    assert install() == home
    assert log.read_text(encoding="utf-8") == "", "an installed core is left alone"
    states = {each.version: each.installed for each in core_command.known_cores(find_board("unoq"))}
    assert states == {"0.55.2": False, "0.90.0": True}


@pytest.mark.parametrize(
    ("at", "does", "says"),
    [
        ("core update-index", "exit 5", "this machine has no way to Arduino's servers"),
        (
            "core update-index",
            "echo 'dial tcp: lookup downloads.arduino.cc: no such host' >&2; exit 1",
            "this machine has no way to Arduino's servers",
        ),
        (
            "core install arduino:zephyr@0.90.0",
            "echo 'Platform arduino:zephyr@0.90.0 not found' >&2; exit 1",
            "'arduino-cli core install arduino:zephyr@0.90.0' exited with 1",
        ),
        ("lib install Arduino_RouterBridge", "exit 5", "no way to Arduino's servers"),
        (
            "core install arduino:zephyr@0.90.0",
            "exit 0",
            "reported success but installed no arduino:zephyr 0.90.0",
        ),
    ],
)
def test_an_installation_that_fails_leaves_nothing(
    fake: Callable[..., Path], at: str, does: str, says: str
) -> None:
    fake(at, does)
    with pytest.raises(ToolError) as got:
        install()
    assert says in got.value.message
    assert [each.name for each in cores_dir().iterdir()] == ["arduino-zephyr-0.90.0.lock"]


def test_what_a_killed_installation_left_is_no_core(fake: Callable[..., Path]) -> None:
    left = cores_dir() / ".installing-arduino-zephyr-0.90.0" / "data"
    left.mkdir(parents=True)
    (left / "half").write_text("", encoding="utf-8")
    fake()
    assert not (install() / "data" / "half").exists()
    assert not left.exists()


def test_boards_of_the_bench_have_no_core_to_install() -> None:
    with pytest.raises(UsageError, match="board 'm33' has no core to install"):
        core_command._board("m33")


def test_core_versions_are_listed_for_people_and_for_programs(
    fake: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    core_command.add_parser(parser.add_subparsers())
    fake()
    options = parser.parse_args(["core", "install", "0.90.0"])
    assert options.func(options) == 0
    home = real_home("arduino:zephyr", "0.90.0")
    assert capsys.readouterr().out == f"arduino:zephyr 0.90.0 is installed in {home}\n"
    options = parser.parse_args(["core", "list"])
    assert options.func(options) == 0
    assert capsys.readouterr().out == (
        f"arduino:zephyr 0.55.2  not installed\narduino:zephyr 0.90.0  installed in {home}\n"
    )
    options = parser.parse_args(["core", "list", "--json"])
    assert options.func(options) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["version"], each["installed"]) for each in listed] == [
        ("0.55.2", False), ("0.90.0", True),
    ]  # fmt: skip
    options = parser.parse_args(["core", "install", "0.91.0"])
    with pytest.raises(UsageError, match=r"board 'unoq' has no core version '0\.91\.0'"):
        options.func(options)
