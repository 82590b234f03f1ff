"""Why a board is not found, each reason with its own sentence, and following one that moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.arduino.port import BoardAbsent, Port
from harness.bench.find import find_port, follow
from harness.boards.board import Board, find_board
from harness.errors import DeviceError, ToolError
from tests.unit.fake_usb import UNOQ_NUMBER, add_device, add_edl, add_unoq

PORT = Port("/dev/ttyACM0", "0x2341", "0x0078", UNOQ_NUMBER, "/dev/ttyACM0")


@pytest.fixture
def board() -> Board:
    return find_board("unoq")


def test_a_board_with_a_port_is_found_without_asking_usb(board: Board, tmp_path: Path) -> None:
    assert find_port([PORT], board, sysfs=tmp_path / "none") == PORT


def test_nothing_is_plugged_in(board: Board, tmp_path: Path) -> None:
    add_device(tmp_path, "1-4", "046d", "c31c", serial_number=None, product="Keyboard")
    with pytest.raises(BoardAbsent, match=r"^no board 'unoq' \(0x2341:0x0078\) is plugged in$"):
        find_port([], board, sysfs=tmp_path)


def test_one_in_download_mode(board: Board, tmp_path: Path) -> None:
    add_edl(tmp_path)
    with pytest.raises(
        BoardAbsent, match=r"but a board in emergency download mode \(EDL\) is on USB 1-2$"
    ) as at:
        find_port([], board, sysfs=tmp_path)
    assert "remove the jumper" in at.value.remedy
    assert at.value.evidence[-1].startswith("USB 1-2: 05c6:9008  no serial number")
    with pytest.raises(BoardAbsent, match="it may be the one that was asked for"):
        find_port([], board, serial_number=UNOQ_NUMBER, sysfs=tmp_path)


def test_download_mode_is_no_matter_of_boards_without_linux(tmp_path: Path) -> None:
    add_edl(tmp_path)
    plain = replace(find_board("unoq"), linux_side=None)
    with pytest.raises(BoardAbsent, match=r"is plugged in$"):
        find_port([], plain, sysfs=tmp_path)


def test_one_on_usb_whose_port_the_kernel_did_not_make(board: Board, tmp_path: Path) -> None:
    add_unoq(tmp_path, tty=None)
    with pytest.raises(BoardAbsent, match="offers a serial port, but the kernel made none") as at:
        find_port([], board, sysfs=tmp_path)
    assert "modprobe cdc_acm" in at.value.remedy
    assert UNOQ_NUMBER in at.value.message


def test_one_on_usb_that_offers_no_port_yet(board: Board, tmp_path: Path) -> None:
    add_device(tmp_path, "1-1", "2341", "0078", interfaces=("ff",))
    for number in (None, UNOQ_NUMBER):
        with pytest.raises(BoardAbsent, match="is on USB, but has no serial port") as at:
            find_port([], board, serial_number=number, sysfs=tmp_path)
        assert "may still boot" in at.value.remedy
        assert "cable" in at.value.remedy


def test_another_board_without_port_is_not_blamed(board: Board, tmp_path: Path) -> None:
    add_device(tmp_path, "1-1", "2341", "0078", interfaces=("ff",))
    with pytest.raises(BoardAbsent, match=r"with serial number '42' is plugged in$"):
        find_port([PORT], board, serial_number="42", sysfs=tmp_path)


def test_one_with_a_port_that_arduino_cli_does_not_list(board: Board, tmp_path: Path) -> None:
    add_unoq(tmp_path)
    with pytest.raises(BoardAbsent, match="on USB at '/dev/ttyACM0', but arduino-cli does") as at:
        find_port([], board, sysfs=tmp_path)
    assert "discovery" in at.value.remedy


def test_a_port_that_exists_and_is_not_listed(board: Board, tmp_path: Path) -> None:
    (tmp_path / "ttyX").write_text("")
    with pytest.raises(BoardAbsent, match="exists, but arduino-cli does not list it") as at:
        find_port([PORT], board, address=str(tmp_path / "ttyX"), sysfs=tmp_path)
    assert UNOQ_NUMBER in at.value.remedy


def test_other_sentences_pass_through(board: Board, tmp_path: Path) -> None:
    add_edl(tmp_path)
    two = [PORT, replace(PORT, address="/dev/ttyACM1", serial_number="1234987650")]
    with pytest.raises(DeviceError, match="2 boards match"):
        find_port(two, board, sysfs=tmp_path)


def test_usb_is_not_asked_for_virtual_boards(tmp_path: Path) -> None:
    add_device(tmp_path, "1-1", "1209", "0033", interfaces=("ff",))
    with pytest.raises(BoardAbsent, match=r"no board 'm33' .* is plugged in$"):
        find_port([], find_board("m33"), sysfs=tmp_path)


def test_usb_is_not_asked_for_stand_ins(board: Board, tmp_path: Path) -> None:
    add_edl(tmp_path)
    with pytest.raises(BoardAbsent, match=r"is plugged in$"):
        find_port([], board, sysfs=None)


def looks(*each: Sequence[Port]) -> Iterator[Sequence[Port]]:
    """What each look sees; one look more is an error."""
    return iter(each)


def test_a_board_is_followed_to_its_new_port() -> None:
    moved = replace(PORT, address="/dev/ttyACM3")
    other = replace(PORT, address="/dev/ttyACM0", serial_number="1234987650")
    remote = replace(PORT, address="10.0.0.7", protocol="network")
    seen = looks([], [other], [other, remote], [other, moved, remote])
    assert follow(UNOQ_NUMBER, lambda: next(seen), timeout_s=20, look_s=0) == moved
    assert list(seen) == []


def test_a_board_that_stays_away_is_a_fault(tmp_path: Path) -> None:
    other = replace(PORT, serial_number="1234987650")
    with pytest.raises(
        BoardAbsent,
        match=r"board '2629845674' vanished from '/dev/ttyACM0' and within 0 s did not come back$",
    ) as at:
        follow(UNOQ_NUMBER, lambda: [other], was_at="/dev/ttyACM0", timeout_s=0, sysfs=tmp_path)
    assert at.value.evidence == ("/dev/ttyACM0  0x2341:0x0078  1234987650",)


def test_where_a_board_that_stays_away_is_instead(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    add_unoq(tmp_path / "a", tty=None)
    with pytest.raises(BoardAbsent, match="it is on USB without a serial port"):
        follow(UNOQ_NUMBER, list, timeout_s=0, sysfs=tmp_path / "a")
    (tmp_path / "b").mkdir()
    add_edl(tmp_path / "b")
    with pytest.raises(BoardAbsent, match=r"emergency download mode \(EDL\) is on USB"):
        follow(UNOQ_NUMBER, list, timeout_s=0, sysfs=tmp_path / "b")


def test_a_serial_number_that_comes_back_twice_is_not_followed(tmp_path: Path) -> None:
    twin = replace(PORT, address="/dev/ttyACM1")
    with pytest.raises(BoardAbsent, match="came back as 2 boards"):
        follow(UNOQ_NUMBER, lambda: [PORT, twin], timeout_s=0, sysfs=tmp_path)


def test_a_tool_that_fails_meanwhile_is_its_own_fault() -> None:
    def broken() -> Sequence[Port]:
        raise ToolError("arduino-cli could not list the ports", remedy="run 'hil doctor'")

    with pytest.raises(ToolError, match="could not list"):
        follow(UNOQ_NUMBER, broken, timeout_s=20)
