"""The exact command lines, and what is read from the JSON that comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.cli import (
    ArduinoCli,
    _link,
    board_list_arguments,
    compile_arguments,
    failure_text,
    read_json,
    upload_arguments,
)
from harness.arduino.port import Port, choose_port, read_ports
from harness.boards.board import find_board
from harness.errors import DeviceError, ToolError
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
    _link(link, Path("/old"))
    _link(link, Path("/new"))
    before = link.lstat()
    _link(link, Path("/new"))
    assert link.readlink() == Path("/new")
    assert link.lstat().st_ino == before.st_ino
    assert [each.name for each in link.parent.iterdir()] == ["python3"]
