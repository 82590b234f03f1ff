"""The board's OpenOCD: the exact command lines, and what is read from its output."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.backdoor import openocd
from harness.backdoor.adb import shell_argv
from harness.backdoor.openocd import OpenOcdFailed, parse_memory, parse_registers
from harness.boards.board import LinuxSide, find_board
from harness.process import Completed

ADB = Path("/tools/adb")
SN = "HILUNOQ0001"


@pytest.fixture(scope="module")
def side() -> LinuxSide:
    """The Uno Q's."""
    found = find_board("unoq").linux_side
    assert found is not None
    return found


BEFORE = (
    "/tools/adb",
    "-s",
    "HILUNOQ0001",
    "shell",
    "/opt/openocd/bin/openocd",
    "-s",
    "/opt/openocd",
    "-f",
    "openocd_gpiod.cfg",
)
"""Source: shared facts, "Host side of the Uno Q", Reset; arduino/remoteocd 7109bed, flash.go."""


def test_reset_is_the_documented_command(side: LinuxSide) -> None:
    # Source: the facts' "-c "init; reset run; shutdown"", with quotes that reach the board.
    assert shell_argv(ADB, SN, openocd.reset_words(side)) == (
        *BEFORE,
        "-c",
        '"init; reset run; shutdown"',
    )


def test_reading_has_a_command_line_for_each_command(side: LinuxSide) -> None:
    # Source: OpenOCD 0.12.0, seen: "-c 'version; shutdown'" prints no version, "-c version -c
    # shutdown" does; src/helper/command.c.
    assert shell_argv(ADB, SN, openocd.read_words(side, 0x10000400, 16)) == (
        *BEFORE,
        "-c",
        "init",
        "-c",
        '"mdb 0x10000400 16"',
        "-c",
        "shutdown",
    )


def test_reading_and_resetting_is_one_call(side: LinuxSide) -> None:
    assert shell_argv(ADB, SN, openocd.read_and_reset_words(side, 0x08100400, 16)) == (
        *BEFORE,
        "-c",
        "init",
        "-c",
        '"mdb 0x08100400 16"',
        "-c",
        '"reset run"',
        "-c",
        "shutdown",
    )


def test_a_look_stops_the_core_and_lets_it_go_on(side: LinuxSide) -> None:
    # Source: OpenOCD's manual (halt, reg, mdw, resume); the address is the CFSR's.
    assert shell_argv(ADB, SN, openocd.look_words(side, (0x3807FFD8, 0x38001000))) == (
        *BEFORE,
        "-c",
        "init",
        "-c",
        "halt",
        "-c",
        "reg",
        "-c",
        '"mdw 0xe000ed28 5"',
        "-c",
        '"mdw 0x3807ffd8 40"',
        "-c",
        '"mdw 0x38001000 40"',
        "-c",
        "resume",
        "-c",
        "shutdown",
    )


def test_a_core_is_let_go_on(side: LinuxSide) -> None:
    assert shell_argv(ADB, SN, openocd.resume_words(side)) == (
        *BEFORE,
        "-c",
        "init",
        "-c",
        "resume",
        "-c",
        "shutdown",
    )


BANNER = """\
Open On-Chip Debugger 0.12.0
Licensed under GNU GPL v2
For bug reports, read
\thttp://openocd.org/doc/doxygen/bugs.html
Info : Linux GPIOD JTAG/SWD bitbang driver
"""
NONCE = b"0123456789abcdef"
# Source: OpenOCD's target.c, target_handle_md_output: 32 bytes a line, a blank after each.
MDB = BANNER + "0x10000400: 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 \n"
MDW = (
    "0x3807ffd8: 00000001 00000002 00000003 dead0000 0000000c 10000741 10000188 61000000 \n"
    "0x3807fff8: deadbeef 00000009 \n"
)


def test_bytes_are_read_by_their_address() -> None:
    assert parse_memory(MDB, 0x10000400, 16) == NONCE
    # An adbd with a terminal in between has other line ends; a newer OpenOCD no last blank.
    done = Completed((), 0, MDB.replace(" \n", "\r\n"), "", 0.1)
    assert parse_memory(openocd.output(done), 0x10000400, 16) == NONCE


def test_lines_of_any_length_and_in_any_order_will_do() -> None:
    data = bytes(range(64))
    lines = [
        f"0x{0x20000000 + at:08x}: " + " ".join(f"{each:02x}" for each in data[at : at + 16])
        for at in (48, 0, 16, 32)
    ]
    assert parse_memory("\n".join(lines), 0x20000000, 64) == data


def test_words_are_little_endian() -> None:
    data = parse_memory(MDW, 0x3807FFD8, 40, width=4)
    assert data[12:16] == b"\x00\x00\xad\xde"
    assert len(data) == 40


@pytest.mark.parametrize(
    "text",
    [
        "",
        BANNER,
        MDB.replace("0x10000400", "0x10000800"),
        MDB.replace("30 31", "30"),
        MDB.replace("30 31", "30 3g"),
        MDB.replace("30 31 ", "30 31 stray text "),
        "\0" * 100,
    ],
)
def test_bytes_that_are_not_all_there_are_an_error(text: str) -> None:
    with pytest.raises(OpenOcdFailed, match=r"printed \d+ of 16 bytes at 0x10000400"):
        parse_memory(text, 0x10000400, 16)


@given(st.text(max_size=400))
def test_no_text_makes_the_readers_do_anything_but_refuse(text: str) -> None:
    with pytest.raises(OpenOcdFailed):
        parse_memory(text, 0x10000400, 16)
    with pytest.raises(OpenOcdFailed):
        parse_registers(text)


# Source: OpenOCD's target.c, handle_reg_command, and armv7m.c for the names.
REG = """\
===== arm v7m registers
(0) r0 (/32): 0x00000058
(12) r12 (/32): 0x0000000c (dirty)
(13) sp (/32): 0x3807ffd8
(14) lr (/32): 0xfffffff9
(15) pc (/32): 0x10000064
(16) xPSR (/32): 0x61000003
(17) msp (/32): 0x3807ffd8
(18) psp (/32)
(20) primask (/1): 0x01
(21) basepri (/8): 0x20
(23) control (/3): 0x00
(24) d0 (/64): 0x0000000000000001
===== Cortex-M DWT registers
(48) dwt_ctrl (/32)
"""


def test_registers_are_read_by_name() -> None:
    found = parse_registers(BANNER + REG)
    assert found == {
        "r0": 0x58,
        "r12": 12,
        "r13": 0x3807FFD8,
        "r14": 0xFFFFFFF9,
        "r15": 0x10000064,
        "xpsr": 0x61000003,
        "msp": 0x3807FFD8,
        "primask": 1,
        "basepri": 0x20,
        "control": 0,
    }


def test_registers_without_values_are_an_error() -> None:
    text = REG.replace("): 0x", ") 0x")
    with pytest.raises(OpenOcdFailed, match="printed no registers r13, r15, xpsr"):
        parse_registers(text)


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        (0, "", BANNER + "shutdown command invoked\n"),
        # Seen with 0.12.0: complaints that it goes on after.
        (0, "", "Error: Trying to use configured scan chain anyway...\nshutdown command invoked\n"),
        # CZ 542's "verify failed" on a good upload has the end's line, too, and exit code 1.
        (1, "", "Error: verify failed in bank\nshutdown command invoked\n"),
        # An old adbd: one stream, a terminal's line ends.
        (0, "Info : x\r\nshutdown command invoked\r\n", ""),
        (0, "", ""),
    ],
)
def test_a_run_that_came_to_its_end_is_good(
    side: LinuxSide, code: int, stdout: str, stderr: str
) -> None:
    assert openocd.check(Completed((), code, stdout, stderr, 0.1), "a reset", side) is not None


@pytest.mark.parametrize(
    ("code", "said", "sentence"),
    [
        (
            127,
            "sh: 1: /opt/openocd/bin/openocd: not found\n",
            "board's OpenOCD failed: there is no program '/opt/openocd/bin/openocd'",
        ),
        (
            1,
            BANNER + "embedded:startup.tcl:28: Error: Can't find openocd_gpiod.cfg\nin procedure",
            "its configuration 'openocd_gpiod.cfg' is not in '/opt/openocd'",
        ),
        (
            1,
            "Error: couldn't bind tcl to socket on port 6666: Address already in use\n",
            "another debugger or upload is at work on the board",
        ),
        (
            1,
            "Error: Unable to open gpiochip 1: Permission denied\n",
            "it may not use the pins of the debugger",
        ),
        (
            1,
            "Error: Error connecting DP: cannot read IDR\n",
            "the chip does not answer its debugger",
        ),
        (
            1,
            "Error: [stm32u5x.cpu] Failed to read memory at 0xeffc0000\n",
            "the chip's memory there cannot be read",
        ),
        (1, 'invalid command name "nonsense"\n', 'with exit code 1: invalid command name "nons'),
        (
            1,
            BANNER + "Error: Trying anyway...\nWarn : x\nError: Target x doesn't support it\n",
            "with exit code 1: Target x doesn't support it",
        ),
        (1, "", "with exit code 1: it said nothing"),
        # An old adbd gives 0 for everything.
        (0, "Error: timed out while waiting for target halted\r\n", "exit code 0: timed out while"),
    ],
)
def test_a_run_that_failed_says_why(side: LinuxSide, code: int, said: str, sentence: str) -> None:
    with pytest.raises(OpenOcdFailed) as caught:
        openocd.check(Completed((), code, "", said, 0.1), "a reset", side)
    assert sentence in caught.value.message
    assert caught.value.remedy
    assert not any("Licensed" in line for line in caught.value.evidence)
