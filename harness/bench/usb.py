"""What is on USB, serial port or not, as the kernel lists it under ``/sys``.

arduino-cli lists ports, so a board that has none is invisible to it: one in emergency download
mode, one whose Linux side still boots, one without a driver.  Empty where there is no ``/sys``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.arduino.port import usb_id
from harness.boards.board import UsbIdentity

SYSFS = Path("/sys")

EDL = UsbIdentity(vid="0x05c6", pid="0x9008")
"""A Qualcomm processor in emergency download mode: it waits for a new system over USB."""

CDC_ACM_CLASS = "02"
"""USB class of the interface that becomes a ttyACM port, as ``bInterfaceClass`` has it."""

_MOST_BYTES = 1024


@dataclass(frozen=True)
class UsbDevice:
    """One device on USB: where, what it says it is, and which ports the kernel made of it.

    ``serial_number`` is empty where it has none.  ``ttys`` are paths below ``/dev``;
    ``interface_classes`` two hexadecimal digits each.
    """

    place: str
    identity: UsbIdentity
    serial_number: str
    product: str
    ttys: tuple[str, ...]
    interface_classes: tuple[str, ...]

    def __str__(self) -> str:
        number = self.serial_number or "no serial number"
        ports = ", ".join(self.ttys) or "no serial port"
        vid, pid = (each.removeprefix("0x") for each in (self.identity.vid, self.identity.pid))
        return f"USB {self.place}: {vid}:{pid}  {number}  {ports}  {self.product}".rstrip()


def usb_devices(sysfs: Path = SYSFS) -> tuple[UsbDevice, ...]:
    """Every device on USB, by its place; one that is unplugged meanwhile is passed over."""
    folder = sysfs / "bus" / "usb" / "devices"
    found = []
    for device in _entries(folder):
        # An interface ("1-1:1.0") stands beside its device and has no identity of its own.
        vid, pid = usb_id(_value(device / "idVendor")), usb_id(_value(device / "idProduct"))
        if ":" not in device.name and vid and pid:
            interfaces = [each for each in _entries(device) if ":" in each.name]
            found.append(
                UsbDevice(
                    place=device.name,
                    identity=UsbIdentity(vid, pid),
                    serial_number=_value(device / "serial"),
                    product=_value(device / "product"),
                    ttys=tuple(tty for each in interfaces for tty in _ttys(each)),
                    interface_classes=tuple(
                        _value(each / "bInterfaceClass") for each in interfaces
                    ),
                )
            )
    return tuple(found)


def _ttys(interface: Path) -> Iterator[str]:
    """``tty/ttyACM0`` of a CDC interface, ``ttyUSB0`` of a serial bridge."""
    names = [each.name for each in _entries(interface / "tty")]
    names += [each.name for each in _entries(interface) if each.name.startswith("ttyUSB")]
    yield from (f"/dev/{name}" for name in names)


def _entries(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _value(path: Path) -> str:
    """What a file of sysfs holds, on one line; empty where it cannot be read."""
    with suppress(OSError):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            text = os.read(number, _MOST_BYTES).decode("utf-8", "replace")
        finally:
            os.close(number)
        return " ".join(text.replace("\0", " ").split())
    return ""
