"""Ports from arduino-cli's JSON, whatever it leaves out, and which of them is the board meant."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.arduino.port import BoardAbsent, Port, choose_port, read_ports, usb_id
from harness.boards.board import Board, find_board
from harness.errors import DeviceError

UNOQ = Port("/dev/ttyACM0", "0x2341", "0x0078", "2629845674", "/dev/ttyACM0")
OTHER = Port("/dev/ttyACM1", "0x2341", "0x0078", "1234987650", "/dev/ttyACM1")
UNO = Port("/dev/ttyACM2", "0x2341", "0x0043", "95433343138351", "/dev/ttyACM2")
BRIDGE = Port("/dev/ttyUSB0", "0x1a86", "0x7523", "", "/dev/ttyUSB0")
ONBOARD = Port("/dev/ttyS0", "", "", "", "/dev/ttyS0")


@pytest.fixture
def board() -> Board:
    return find_board("unoq")


def choose(
    board: Board, *ports: Port, address: str | None = None, serial_number: str | None = None
) -> Port:
    return choose_port(ports, board, address=address, serial_number=serial_number)


def one(**port: object) -> dict[str, object]:
    return {"detected_ports": [{"port": port}]}


PROPERTIES = {"vid": "0x2341", "pid": "0x0078", "serialNumber": "2629845674"}


def test_a_port_as_arduino_cli_prints_it() -> None:
    # Shape of arduino-cli's rpc Port as of 1.5; matching_boards is left out when it is empty.
    report = """{"detected_ports": [{"port": {"address": "/dev/ttyACM0", "label": "/dev/ttyACM0",
        "protocol": "serial", "protocol_label": "Serial Port (USB)", "hardware_id": "2629845674",
        "properties": {"vid": "0x2341", "pid": "0x0078", "serialNumber": "2629845674"}}}]}"""
    assert read_ports(json.loads(report)) == (UNOQ,)


@pytest.mark.parametrize(
    ("properties", "vid", "pid", "number"),
    [
        (None, "", "", ""),
        ([], "", "", ""),
        ("0x2341", "", "", ""),
        ({}, "", "", ""),
        ({"vid": None, "pid": None, "serialNumber": None}, "", "", ""),
        (
            {"vid": 0x2341, "pid": 0x78, "serialNumber": 2629845674},
            "0x2341",
            "0x0078",
            "2629845674",
        ),
        ({"vid": "2341", "pid": "0X78", "serialNumber": " A1B2 "}, "0x2341", "0x0078", "A1B2"),
        ({"vid": True, "pid": 1.5, "serialNumber": ["x"]}, "", "", ""),
        ({"vid": "0x12345", "pid": "uno", "serialNumber": ""}, "", "", ""),
        ({"vid": "0x1A86", "pid": -1}, "0x1a86", "", ""),
    ],
)
def test_what_is_left_out_or_of_another_type_is_empty(
    properties: object, vid: str, pid: str, number: str
) -> None:
    (port,) = read_ports(one(address="/dev/x", properties=properties))
    assert (port.vid, port.pid, port.serial_number) == (vid, pid, number)


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"detected_ports": None},
        {"detected_ports": {}},
        {"detected_ports": "x"},
        {"detected_ports": [None, 1, "x", [], {}, {"port": None}, {"port": []}]},
        one(),
        one(address=None),
        one(address=3),
        one(address=""),
        one(address="/dev/a\0b"),
        one(address="/dev/\ud800"),
    ],
)
def test_what_has_no_address_is_no_port(report: dict[str, object]) -> None:
    assert read_ports(report) == ()


def test_an_address_that_two_discoveries_list_is_one_port() -> None:
    bare = {"port": {"address": "/dev/ttyACM0"}}
    full = {"port": {"address": "/dev/ttyACM0", "properties": PROPERTIES}}
    for entries in ([bare, full], [full, bare], [full, full]):
        assert read_ports({"detected_ports": entries}) == (UNOQ,)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["detected_ports", "port", "address", "properties", "vid", "pid", "serialNumber"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["detected_ports", "x"]), json_values))
def test_any_json_gives_ports_or_none(report: dict[str, object]) -> None:
    ports = read_ports(report)
    assert len({port.address for port in ports}) == len(ports)
    assert all(port.address and isinstance(port.serial_number, str) for port in ports)


def test_an_id_is_written_in_one_way() -> None:
    assert {usb_id(each) for each in ("0x2341", "0X2341", "2341", 0x2341)} == {"0x2341"}
    assert {
        usb_id(each)
        for each in (None, "", "0x", "x2341", 65536, -1, True, "\uff12\uff13\uff14\uff11")
    } == {""}


def test_nothing_is_plugged_in(board: Board) -> None:
    with pytest.raises(
        BoardAbsent, match=r"^no board 'unoq' \(0x2341:0x0078\) is plugged in$"
    ) as at:
        choose(board)
    assert "cable" in at.value.remedy
    assert "hil emulate unoq" in at.value.remedy
    assert at.value.evidence == ("no port was found at all",)


def test_the_one_board_is_chosen_among_other_ports(board: Board) -> None:
    assert choose(board, UNO, BRIDGE, UNOQ, ONBOARD) == UNOQ


def test_several_match_and_each_can_be_chosen(board: Board) -> None:
    with pytest.raises(DeviceError, match="2 boards match 'unoq': 1234987650, 2629845674") as at:
        choose(board, UNOQ, OTHER)
    assert "--hil-serial" in at.value.remedy
    assert choose(board, UNOQ, OTHER, serial_number="1234987650") == OTHER
    assert choose(board, UNOQ, OTHER, address="/dev/ttyACM0") == UNOQ


def test_several_with_one_serial_number_are_clones(board: Board) -> None:
    twin = replace(OTHER, serial_number=UNOQ.serial_number)
    for number in (None, UNOQ.serial_number):
        with pytest.raises(DeviceError, match="is the serial number of more than one") as at:
            choose(board, UNOQ, twin, serial_number=number)
        assert "clones" in at.value.remedy


def test_a_serial_number_that_is_not_there_lists_those_that_are(board: Board) -> None:
    with pytest.raises(BoardAbsent, match="with serial number '42' is plugged in") as at:
        choose(board, UNOQ, OTHER, UNO, serial_number="42")
    assert "1234987650 at /dev/ttyACM1, 2629845674 at /dev/ttyACM0" in at.value.remedy
    assert "95433343138351" not in at.value.remedy


def test_a_serial_number_of_another_kind_of_board(board: Board) -> None:
    with pytest.raises(
        DeviceError,
        match=r"'95433343138351' belongs to another board than 'unoq' .*: 0x2341:0x0043"
        " at '/dev/ttyACM2'",
    ):
        choose(board, UNO, serial_number="95433343138351")


@pytest.mark.parametrize(
    ("port", "what"),
    [
        (UNO, "0x2341:0x0043"),
        (BRIDGE, r"a serial bridge \(CH340, 0x1a86:0x7523\)"),
        (ONBOARD, "a port without USB identity"),
    ],
)
def test_a_port_with_another_board_behind_it(board: Board, port: Port, what: str) -> None:
    with pytest.raises(
        DeviceError, match=f"belongs to another board than 'unoq' .*: {what}$"
    ) as at:
        choose(board, UNOQ, port, address=port.address)
    assert "2629845674 at /dev/ttyACM0" in at.value.remedy


def test_a_port_of_the_kind_but_not_of_the_serial_number(board: Board) -> None:
    with pytest.raises(
        DeviceError,
        match="'/dev/ttyACM0' belongs to the board with serial number '2629845674', not to",
    ) as at:
        choose(board, UNOQ, OTHER, address="/dev/ttyACM0", serial_number="1234987650")
    assert "leave --hil-port out" in at.value.remedy


def test_a_port_that_is_not_there_says_where_the_board_is(board: Board) -> None:
    with pytest.raises(BoardAbsent, match="at '/dev/ttyACM7' is plugged in") as at:
        choose(board, UNOQ, address="/dev/ttyACM7")
    assert "2629845674 at /dev/ttyACM0" in at.value.remedy


def test_a_link_to_the_port_is_the_port(board: Board, tmp_path: Path) -> None:
    (tmp_path / "tty").write_text("")
    (tmp_path / "by-id").symlink_to("tty")
    port = replace(UNOQ, address=str(tmp_path / "tty"))
    assert choose(board, OTHER, port, address=str(tmp_path / "by-id")) == port


def test_a_serial_bridge_where_the_board_was_expected(board: Board) -> None:
    with pytest.raises(
        BoardAbsent, match=r"is plugged in, but a serial bridge \(CH340, .*\) is at '/dev/ttyUSB0'"
    ) as at:
        choose(board, BRIDGE)
    assert "clone" in at.value.remedy


@pytest.mark.parametrize(
    "number",
    ["", "0", "???", "00000000", "FFFFFFFF", "0123456789ABCDEF", "1234567890", "x" * 65, "a b c d"],
)
def test_a_clone_has_no_serial_number_of_its_own(board: Board, number: str) -> None:
    with pytest.raises(DeviceError, match="is an unknown clone of 'unoq'") as at:
        choose(board, replace(UNOQ, serial_number=number))
    assert "genuine" in at.value.remedy


def test_a_board_seen_over_the_network_is_not_on_usb(board: Board) -> None:
    remote = Port("192.168.1.7", "0x2341", "0x0078", "2629845674", "uno-q", protocol="network")
    assert choose(board, remote, UNOQ, serial_number="2629845674") == UNOQ
    with pytest.raises(BoardAbsent, match="is plugged in"):
        choose(board, remote)


def test_ten_thousand_ports_are_no_wall_of_text(board: Board) -> None:
    entries = [
        {
            "port": {
                "address": f"/dev/ttyACM{n}",
                "properties": {**PROPERTIES, "serialNumber": f"SN{n:05}"},
            }
        }
        for n in range(10_000)
    ]
    ports = read_ports(json.loads(json.dumps({"detected_ports": entries})))
    assert len(ports) == 10_000
    assert choose(board, *ports, serial_number="SN09999").address == "/dev/ttyACM9999"
    for wanted in (None, "NOPE"):
        with pytest.raises(DeviceError, match=r"boards match|with serial number 'NOPE'") as at:
            choose(board, *ports, serial_number=wanted)
        assert len(at.value.message) + len(at.value.remedy) < 1000
        assert at.value.evidence[-1] == "and 9980 ports more"


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x1b]0;x\x07", "a\0b", "é" * 100_000, "'; rm -rf ~", "{x}"]
)
def test_what_a_device_says_of_itself_is_quoted_and_short(board: Board, text: str) -> None:
    ports = read_ports(one(address="/dev/ttyACM0", properties={**PROPERTIES, "serialNumber": text}))
    with pytest.raises(DeviceError, match="unknown clone") as at:
        choose(board, *ports)
    assert len(at.value.message) < 1000
    assert at.value.message.isprintable()
    assert len("".join(at.value.evidence)) < 1000
