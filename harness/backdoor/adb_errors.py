"""What ``adb`` says when it cannot reach a board: each state is its own error with its remedy.

The texts are those of adb's own source (packages/modules/adb, transport.cpp and adb_client.cpp);
older and newer versions begin them with ``error:`` or ``adb:``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.errors import CapabilityMissing, DeviceError

ARDUINO_VENDOR = "2341"
"""Arduino's USB vendor id, as udev rules write it."""

SHOWN_LINES = 6
SHOWN_CHARS = 200


class AdbMissing(CapabilityMissing):
    """There is no program ``adb``: the Linux side of the board cannot be asked anything.

    Remedy: install it, or name it in the configuration.
    """


class AdbError(DeviceError):
    """adb does not reach the board.  Remedy: in the message of each kind."""


class AdbNoDevice(AdbError):
    """adb sees no board at all."""


class AdbNotFound(AdbError):
    """adb sees boards, but not this one."""


class AdbSeveral(AdbError):
    """More than one board is there and none was chosen."""


class AdbUnauthorized(AdbError):
    """The board does not know this computer's key."""


class AdbOffline(AdbError):
    """The board is there, but its Linux side does not answer yet."""


class AdbNoPermission(AdbError):
    """This user may not open the board's USB device."""


class AdbServerBroken(AdbError):
    """adb's server on this computer cannot be started or spoken with."""


class AdbWedged(AdbError):
    """adb did not come back in time."""


class AdbGarbage(AdbError):
    """adb printed what no version of it prints, or far too much."""


INSTALL = (
    "install the board's Arduino core, which brings one, or the package 'adb', or name it with"
    ' adb = "PATH" in the configuration'
)


def missing(program: Path) -> AdbMissing:
    """The error for a path at which there is no program."""
    return AdbMissing(f"the program 'adb' is not at {str(program)!r}", remedy=INSTALL)


def nowhere(why: str) -> AdbMissing:
    """The error for a machine without the program; ``why`` there is no other one."""
    return AdbMissing(f"the program 'adb' is not on PATH, and {why}", remedy=INSTALL)


def no_device(serial_number: str | None) -> AdbNoDevice:
    """The error for an empty list."""
    wanted = f": {serial_number!r} was asked for" if serial_number else ""
    return AdbNoDevice(
        f"adb sees no board{wanted}",
        remedy="plug the board in with a cable that carries data; its Linux side needs half a"
        " minute to boot; no board in 'adb devices' for longer than that is a cable or a port",
    )


def not_found(serial_number: str, there: Sequence[str]) -> AdbNotFound:
    """The error for another board than those in the list."""
    shown = ", ".join(map(repr, there)) or "none"
    return AdbNotFound(
        f"adb does not see board {serial_number!r}; it sees {shown}",
        remedy="check the serial number with 'adb devices', and that this board is plugged in",
    )


def several(there: Sequence[str]) -> AdbSeveral:
    """The error for a choice that is not the bench's to make."""
    return AdbSeveral(
        f"adb sees {len(there)} boards and none was chosen: {', '.join(map(repr, there))}",
        remedy="name one by its serial number",
    )


def twins(serial_number: str) -> AdbSeveral:
    """The error for a number that is not one board's."""
    return AdbSeveral(
        f"adb sees more than one board with serial number {serial_number!r}",
        remedy="unplug one of them: two boards with one number cannot be told apart",
    )


def unauthorized(serial_number: str) -> AdbUnauthorized:
    """The error for a board that asks its user first."""
    return AdbUnauthorized(
        f"board {serial_number!r} does not let this computer in: adb calls it 'unauthorized'",
        remedy="accept this computer's key on the board; if it asks for none, run"
        " 'adb kill-server' and plug the board in again",
    )


def offline(serial_number: str, state: str = "offline") -> AdbOffline:
    """The error for a board whose Linux side is not ready."""
    return AdbOffline(
        f"the Linux side of board {serial_number!r} does not answer: adb calls it {state!r}",
        remedy="wait until Linux has booted (about half a minute); if it stays so, run"
        " 'adb kill-server' and plug the board in again",
    )


def no_permission(serial_number: str, said: str) -> AdbNoPermission:
    """The error for a USB device that only root may open."""
    return AdbNoPermission(
        f"this user may not open the USB device of board {serial_number!r}",
        remedy=f"install a udev rule for vendor id {ARDUINO_VENDOR}, as a file in"
        f' /etc/udev/rules.d: SUBSYSTEM=="usb", ATTRS{{idVendor}}=="{ARDUINO_VENDOR}",'
        ' MODE="0660", TAG+="uaccess"; then run \'adb kill-server\' and plug the board in again',
        evidence=shown_lines(said),
    )


def server_broken(said: str) -> AdbServerBroken:
    """The error for a server that cannot be had."""
    return AdbServerBroken(
        "adb's server on this computer cannot be started or spoken with",
        remedy="run 'adb kill-server', then 'adb devices' by hand; port 5037 may be taken by"
        " another program or by an adb of another version",
        evidence=shown_lines(said),
    )


def wedged(doing: str, timeout_s: float, evidence: tuple[str, ...]) -> AdbWedged:
    """The error for a call that did not end; its process has been ended."""
    return AdbWedged(
        f"adb did not come back within {timeout_s:g} s from {doing!r} and was ended",
        remedy="run 'adb kill-server'; if it hangs again, unplug the board for a moment",
        evidence=evidence,
    )


def too_much(doing: str, most_bytes: int) -> AdbGarbage:
    """The error for a flood; its process has been ended."""
    return AdbGarbage(
        f"adb printed more than {most_bytes} bytes for {doing!r} and was ended",
        remedy="run that command by hand to see what it prints",
    )


def garbage(doing: str, said: str) -> AdbGarbage:
    """The error for text that is not adb's."""
    return AdbGarbage(
        f"what adb printed for {doing!r} cannot be read",
        remedy="check that this program is adb: run it with 'version'; then 'adb kill-server'",
        evidence=shown_lines(said),
    )


def failed(doing: str, code: int, said: str) -> AdbError:
    """The error for an exit code that nothing explains."""
    told = "" if said.strip() else " and said nothing"
    return AdbError(
        f"adb exited with {code}{told} for {doing!r}",
        remedy="run 'adb kill-server' and try again; 'adb devices' shows whether the board is"
        " still there",
        evidence=shown_lines(said),
    )


_OWN = re.compile(r"^(?:error|adb|adb\.exe|\* failed)\b[: ]", re.M)
"""How adb's own complaints begin; what a command on the board says is not adb's."""


def complaint(said: str, serial_number: str, doing: str, code: int) -> AdbError | None:
    """The error that adb's own words stand for; None where they are none of adb's."""
    own = "\n".join(line for line in said.splitlines() if _OWN.match(line)).lower()
    if not own:
        return None
    if "unauthorized" in own:
        return unauthorized(serial_number)
    if "permission" in own:
        return no_permission(serial_number, said)
    for state in ("offline", "still connecting", "still authorizing"):
        if state in own:
            return offline(serial_number, state.removeprefix("still "))
    if "more than one device" in own:
        return twins(serial_number)
    if "no devices" in own:
        return no_device(serial_number)
    if re.search(r"device(?: '[^'\n]*')? not found", own):
        return not_found(serial_number, ())
    if re.search(r"daemon|server|smartsocket|5037|protocol fault|ack", own):
        return server_broken(said)
    return failed(doing, code, said)


def shown_lines(said: str) -> tuple[str, ...]:
    """The first lines of what was said, cut, for evidence."""
    lines = [line[:SHOWN_CHARS] for line in said[: 64 * SHOWN_CHARS].splitlines() if line.strip()]
    return tuple(lines[:SHOWN_LINES])
