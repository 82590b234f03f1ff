"""A tree such as the kernel's ``/sys``, with the USB devices that a test wants."""

from __future__ import annotations

from pathlib import Path

UNOQ_NUMBER = "2629845674"


def add_device(
    sysfs: Path,
    place: str,
    vid: str,
    pid: str,
    *,
    serial_number: str | None = UNOQ_NUMBER,
    product: str | None = "UNO Q",
    interfaces: tuple[str, ...] = (),
    tty: str | None = None,
) -> Path:
    """One device with interfaces of the classes given; ``tty`` is the port of the first."""
    device = sysfs / "devices" / "pci0000:00" / "usb1" / place
    device.mkdir(parents=True)
    (device / "idVendor").write_text(f"{vid}\n")
    (device / "idProduct").write_text(f"{pid}\n")
    if serial_number is not None:
        (device / "serial").write_text(f"{serial_number}\n")
    if product is not None:
        (device / "product").write_text(f"{product}\n")
    links = sysfs / "bus" / "usb" / "devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / place).symlink_to(device)
    for number, each in enumerate(interfaces):
        interface = device / f"{place}:1.{number}"
        interface.mkdir()
        (interface / "bInterfaceClass").write_text(f"{each}\n")
        (links / interface.name).symlink_to(interface)
        if tty is not None and number == 0:
            # A CDC port stands in a folder of its own, a serial bridge's does not.
            (interface / ("tty" if tty.startswith("ttyACM") else "") / tty).mkdir(parents=True)
    return device


def add_unoq(sysfs: Path, *, tty: str | None = "ttyACM0", place: str = "1-1") -> Path:
    """A Uno Q: serial port, its data, and adb."""
    return add_device(sysfs, place, "2341", "0078", interfaces=("02", "0a", "ff"), tty=tty)


def add_edl(sysfs: Path, *, place: str = "1-2") -> Path:
    """A board in emergency download mode, which has no serial number."""
    return add_device(
        sysfs, place, "05c6", "9008", serial_number=None, product="QUSB_BULK", interfaces=("ff",)
    )
