"""adb: every command line, every state a board can be in, every complaint adb has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.backdoor import adb_errors
from harness.backdoor.adb import (
    AdbDevice,
    Listed,
    choose,
    devices_argv,
    parse_devices,
    remote_word,
    shell_argv,
)
from harness.errors import CapabilityMissing, DeviceError, UsageError

ADB = Path("/tools/adb")
SN = "HILUNOQ0001"
HEAD = "List of devices attached\n"


def test_the_list_of_devices() -> None:
    # Source: adb's own documentation.
    assert devices_argv(ADB) == ("/tools/adb", "devices")


def test_a_command_on_the_board() -> None:
    # Source: arduino/remoteocd 7109bed, board/adb.go: adb -s SERIAL shell, then word for word.
    assert shell_argv(ADB, SN, ("cat", "/proc/uptime")) == (
        "/tools/adb",
        "-s",
        "HILUNOQ0001",
        "shell",
        "cat",
        "/proc/uptime",
    )


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        # Words as they are: options, paths, addresses.
        ("-c", "-c"),
        ("/opt/openocd/bin/openocd", "/opt/openocd/bin/openocd"),
        ("--lines=3", "--lines=3"),
        # Source: arduino/remoteocd 7109bed, escapeArgs: double quotes around a word with blanks.
        ("init; reset run; shutdown", '"init; reset run; shutdown"'),
        ("mdb 0x10000400 16", '"mdb 0x10000400 16"'),
        # What a POSIX shell still expands within double quotes.
        ('say "$HOME" `id` \\', '"say \\"\\$HOME\\" \\`id\\` \\\\"'),
        ("", '""'),
        ("a;b", '"a;b"'),
    ],
)
def test_a_word_arrives_as_one_word(word: str, quoted: str) -> None:
    assert remote_word(word) == quoted


def test_a_list_is_read_whatever_the_server_says_before_it() -> None:
    # Source: adb 29.0.6 (devices), transport.cpp (states); both forms of the blank are in use.
    text = (
        "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n"
        + HEAD
        + "HILUNOQ0001\tdevice\n"
        + "HILUNOQ0002\tunauthorized\r\n"
        + "HILUNOQ0003            offline usb:1-1\n"
        + "????????????\tno permissions (user in plugdev group; are your udev rules wrong?);"
        + " see [http://developer.android.com/tools/device.html]\n\n"
    )
    listed = parse_devices(text)
    assert [(each.serial_number, each.state) for each in listed] == [
        ("HILUNOQ0001", "device"),
        ("HILUNOQ0002", "unauthorized"),
        ("HILUNOQ0003", "offline"),
        ("????????????", "no permissions"),
    ]
    assert "udev rules" in listed[3].detail
    assert parse_devices(HEAD) == ()


@pytest.mark.parametrize(
    "text",
    ["", "\0\xff\x1b[2J", "device\n", HEAD + "HILUNOQ0001\n", HEAD + "HILUNOQ0001\tdevices\n"],
)
def test_text_that_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(adb_errors.AdbGarbage, match="what adb printed for 'devices' cannot be"):
        parse_devices(text)


READY = Listed(SN, "device")
OTHER = Listed("2629142341", "device")


def test_a_board_that_is_ready_is_chosen() -> None:
    assert choose((OTHER, READY), SN) == READY
    assert choose((READY,), None) == READY


@pytest.mark.parametrize(
    ("listed", "wanted", "kind", "sentence", "remedy"),
    [
        ((), SN, adb_errors.AdbNoDevice, "adb sees no board: 'HILUNOQ0001' was", "cable"),
        ((), None, adb_errors.AdbNoDevice, "adb sees no board$", "cable"),
        (
            (OTHER, Listed("AB", "offline")),
            SN,
            adb_errors.AdbNotFound,
            "adb does not see board 'HILUNOQ0001'; it sees '2629142341', 'AB'",
            "adb devices",
        ),
        (
            (OTHER, READY),
            None,
            adb_errors.AdbSeveral,
            "adb sees 2 boards and none was chosen: '2629142341', 'HILUNOQ0001'",
            "serial number",
        ),
        (
            (READY, OTHER, READY),
            SN,
            adb_errors.AdbSeveral,
            "adb sees more than one board with serial number 'HILUNOQ0001'",
            "unplug one of them",
        ),
        (
            (Listed(SN, "unauthorized"),),
            SN,
            adb_errors.AdbUnauthorized,
            "board 'HILUNOQ0001' does not let this computer in: adb calls it 'unauthorized'",
            "accept this computer's key on the board; .*adb kill-server",
        ),
        (
            (Listed(SN, "offline"),),
            SN,
            adb_errors.AdbOffline,
            "the Linux side of board 'HILUNOQ0001' does not answer: adb calls it 'offline'",
            "wait until Linux has booted",
        ),
        ((Listed(SN, "authorizing"),), SN, adb_errors.AdbOffline, "'authorizing'", "booted"),
        ((Listed(SN, "recovery"),), SN, adb_errors.AdbOffline, "'recovery'", "booted"),
        (
            (Listed(SN, "no permissions", "(missing udev rules?)"),),
            SN,
            adb_errors.AdbNoPermission,
            "this user may not open the USB device of board 'HILUNOQ0001'",
            'udev rule for vendor id 2341, .*ATTRS{idVendor}=="2341"',
        ),
        (
            # adb cannot read the number of a device that it may not open.
            (Listed("????????????", "no permissions"),),
            SN,
            adb_errors.AdbNoPermission,
            "this user may not open the USB device of board 'HILUNOQ0001'",
            "udev",
        ),
    ],
)
def test_every_state_is_its_own_error(
    listed: tuple[Listed, ...],
    wanted: str | None,
    kind: type[DeviceError],
    sentence: str,
    remedy: str,
) -> None:
    with pytest.raises(kind, match=sentence) as caught:
        choose(listed, wanted)
    assert type(caught.value) is kind
    assert re.search(remedy, caught.value.remedy)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        # Seen: what adb 29.0.6 printed to a server that answered so.
        ("error: device 'HILUNOQ0001' not found", adb_errors.AdbNotFound),
        ("error: device not found", adb_errors.AdbNotFound),
        ("error: no devices/emulators found", adb_errors.AdbNoDevice),
        ("error: device offline", adb_errors.AdbOffline),
        ("error: device still authorizing", adb_errors.AdbOffline),
        ("error: more than one device/emulator", adb_errors.AdbSeveral),
        (
            "error: device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set\n",
            adb_errors.AdbUnauthorized,
        ),
        (
            "error: insufficient permissions for device: missing udev rules? user is in the group",
            adb_errors.AdbNoPermission,
        ),
        (
            "error: protocol fault (couldn't read status): Success",
            adb_errors.AdbServerBroken,
        ),
        (
            "adb: failed to check server version: protocol fault (status 48 54 54 50?!)",
            adb_errors.AdbServerBroken,
        ),
        # Source: adb/client/adb_client.cpp.
        ("* failed to start daemon\nerror: cannot connect to daemon", adb_errors.AdbServerBroken),
        ("error: closed", adb_errors.AdbError),
        ("adb: device 'HILUNOQ0001' not found", adb_errors.AdbNotFound),
    ],
)
def test_every_complaint_of_adb_is_its_own_error(
    said: str, kind: type[adb_errors.AdbError]
) -> None:
    error = adb_errors.complaint(said, SN, "shell true", 1)
    assert type(error) is kind
    assert error.remedy
    assert "\n" not in error.message


@pytest.mark.parametrize(
    "said",
    [
        "",
        "inactive",
        "Error: [stm32u5x.cpu] Failed to read memory at 0xeffc0000",
        "sh: 1: /opt/openocd/bin/openocd: not found",
        "* daemon not running; starting now at tcp:5037\n* daemon started successfully\nfailed",
    ],
)
def test_what_a_command_on_the_board_says_is_no_complaint_of_adb(said: str) -> None:
    assert adb_errors.complaint(said, SN, "shell true", 1) is None


def test_evidence_of_hostile_text_is_bounded() -> None:
    lines = adb_errors.shown_lines("x" * 1000 + "\n" + "y\n" * 100000)
    assert len(lines) == adb_errors.SHOWN_LINES
    assert max(map(len, lines)) == adb_errors.SHOWN_CHARS


@pytest.mark.parametrize(
    "serial_number", ["", "-s", "a b", "{upload.port.properties.serialNumber}"]
)
def test_a_serial_number_that_adb_would_misread_never_reaches_it(serial_number: str) -> None:
    with pytest.raises(UsageError, match="is not one that adb takes"):
        AdbDevice(Path("/bin/true"), serial_number).check()


def test_a_machine_without_adb_is_told_so(tmp_path: Path) -> None:
    for program in (tmp_path / "adb", tmp_path):
        with pytest.raises(CapabilityMissing, match="the program 'adb' is not at") as caught:
            AdbDevice(program, SN).check()
        assert "install" in caught.value.remedy
