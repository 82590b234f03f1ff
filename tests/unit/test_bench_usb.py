"""USB as the kernel lists it, in trees made for the purpose."""

from __future__ import annotations

from pathlib import Path

from harness.bench.usb import EDL, usb_devices
from harness.boards.board import UsbIdentity
from tests.unit.fake_usb import add_device, add_edl, add_unoq


def test_a_board_with_its_port(tmp_path: Path) -> None:
    add_unoq(tmp_path)
    (device,) = usb_devices(tmp_path)
    assert device.identity == UsbIdentity("0x2341", "0x0078")
    assert device.serial_number == "2629845674"
    assert device.ttys == ("/dev/ttyACM0",)
    assert device.interface_classes == ("02", "0a", "ff")
    assert str(device) == "USB 1-1: 2341:0078  2629845674  /dev/ttyACM0  UNO Q"


def test_a_serial_bridge_has_its_port_elsewhere(tmp_path: Path) -> None:
    add_device(tmp_path, "1-3", "1a86", "7523", interfaces=("ff",), tty="ttyUSB0")
    (device,) = usb_devices(tmp_path)
    assert device.ttys == ("/dev/ttyUSB0",)


def test_what_has_no_serial_number_and_no_port(tmp_path: Path) -> None:
    add_edl(tmp_path)
    (device,) = usb_devices(tmp_path)
    assert device.identity == EDL
    assert device.serial_number == ""
    assert device.ttys == ()
    assert "no serial number  no serial port" in str(device)


def test_a_machine_without_usb_has_no_devices(tmp_path: Path) -> None:
    assert usb_devices(tmp_path) == ()
    (tmp_path / "bus").write_text("")
    assert usb_devices(tmp_path) == ()


def test_what_is_unplugged_or_damaged_is_passed_over(tmp_path: Path) -> None:
    add_unoq(tmp_path)
    links = tmp_path / "bus" / "usb" / "devices"
    (links / "1-9").symlink_to(tmp_path / "gone")
    (links / "usb1").mkdir()
    (links / "2-1").mkdir()
    (links / "2-1" / "idVendor").write_bytes(b"\xff\0\x1b[2J")
    (links / "2-1" / "idProduct").mkdir()
    assert [each.place for each in usb_devices(tmp_path)] == ["1-1"]


def test_texts_of_a_device_are_one_short_line(tmp_path: Path) -> None:
    add_device(
        tmp_path, "1-1", "2341", "0078", serial_number="A\nB\0C", product="x" * 5000 + "\n\x1b[2J"
    )
    (device,) = usb_devices(tmp_path)
    assert device.serial_number == "A B C"
    assert len(device.product) <= 1024
    assert "\n" not in str(device)
