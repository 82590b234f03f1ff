"""What keeps a board's port from being opened: permission, or another program that holds it."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness.arduino.port import Port
from harness.clock import Deadline, pause
from harness.errors import DeviceError
from harness.serial.port import permission_remedy
from harness.serial.port_holders import MODEM_MANAGER, modem_manager_runs, port_holders

PROBED_S = 20.0
"""Seconds a port that ModemManager probes is waited for; it gives up after some ten."""

RULES_FILE = "/etc/udev/rules.d/60-executorch-hil.rules"
"""Where a udev rule goes; a number below 73, or its ``uaccess`` tag comes too late to count."""

_LOOK_S = 0.5


def require_usable(
    port: Port,
    *,
    progress: Callable[[str], None] = lambda _: None,
    probed_s: float = PROBED_S,
) -> None:
    """Raise :class:`DeviceError` when the port may not be opened or another program holds it.

    A port that ModemManager probes is waited for, ``probed_s`` seconds at most.  Opening the
    port may be refused all the same afterwards: this is here for its better words.
    """
    _require_permission(port)
    deadline = Deadline.after(probed_s)
    told = False
    while holders := port_holders(port.address):
        probing = all(each.name == MODEM_MANAGER for each in holders)
        if not probing or deadline.expired:
            names = ", ".join(str(each) for each in holders)
            raise DeviceError(
                f"port {port.address!r} of board {port.serial_number!r} is held by {names}",
                remedy=modem_manager_remedy(port)
                if probing
                else "close the serial monitor or the run that holds it, then run again",
            )
        if not told:
            progress(f"waiting for {MODEM_MANAGER} to stop probing port {port.address!r}")
            told = True
        pause(min(_LOOK_S, deadline.remaining_s))


def modem_manager_hint(port: Port) -> str | None:
    """One sentence where ModemManager runs, for a port that is busy without a visible holder or
    received bytes that nobody sent; None where it does not.
    """
    if not modem_manager_runs():
        return None
    return (
        f"{MODEM_MANAGER} runs on this machine and sends modem commands to every new port:"
        f" {modem_manager_remedy(port)}"
    )


def modem_manager_remedy(port: Port) -> str:
    """How to keep ModemManager away from this kind of board: with a udev rule, for good."""
    vid, pid = port.vid.removeprefix("0x"), port.pid.removeprefix("0x")
    return (
        f"stop it ('sudo systemctl stop ModemManager'), or for good, in {RULES_FILE}:"
        f' ATTRS{{idVendor}}=="{vid}", ATTRS{{idProduct}}=="{pid}", ENV{{ID_MM_DEVICE_IGNORE}}="1"'
    )


def udev_rule(vid: str, pid: str) -> str:
    """The udev rule that gives the user at the machine a board's port and its adb interface."""
    return (
        f'SUBSYSTEMS=="usb", ATTRS{{idVendor}}=="{vid.removeprefix("0x")}",'
        f' ATTRS{{idProduct}}=="{pid.removeprefix("0x")}", MODE="0660", TAG+="uaccess"'
    )


def _require_permission(port: Port) -> None:
    path = Path(port.address)
    if not os.access(path, os.F_OK) or os.access(path, os.R_OK | os.W_OK):
        return
    owner = "unknown owner"
    with suppress(OSError, KeyError):
        facts = path.stat()
        owner = f"{stat.filemode(facts.st_mode)} {facts.st_uid}:{facts.st_gid}"
        owner = f"{stat.filemode(facts.st_mode)} {path.owner()}:{path.group()}"
    user = str(os.getuid())
    with suppress(KeyError):
        user = pwd.getpwuid(os.getuid()).pw_name
    raise DeviceError(
        f"port {port.address!r} of board {port.serial_number!r} may not be opened by user"
        f" {user!r}: it is {owner}",
        remedy=f"{permission_remedy(path)}; or put this rule into {RULES_FILE} and plug"
        f" the board in again: {udev_rule(port.vid, port.pid)}",
    )
