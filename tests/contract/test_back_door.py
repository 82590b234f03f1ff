"""A board's back door above an adb that is a real child process and plays the board."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.backdoor import openocd
from harness.backdoor.adb import AdbDevice, remote_word
from harness.backdoor.adb_errors import AdbMissing
from harness.backdoor.back_door import BackDoor
from harness.backdoor.openocd import OpenOcdFailed
from harness.backdoor.witness import BackDoorWitness
from harness.boards.board import LinuxSide, find_board
from harness.errors import DeviceError, UsageError
from tests.contract import fake_adb
from tests.contract.fake_adb import Answer
from tests.unit.small_elf import arm_elf

SN = "HILUNOQ0001"
BASE = 0x10000000
NONCE = b"0123456789abcdef"
NONCE_AT = BASE + 0x28
SP = 0x3807FFA0
BL = struct.pack("<HH", 0xF7FF, 0xFFF6)
ENDED = "shutdown command invoked\n"
MDB = f"0x{NONCE_AT:08x}: " + NONCE.hex(" ") + " \n"
FRAME = (1, 2, 3, 0xDEAD0000, 12, BASE + 0x15, BASE + 4, 0x61000000)


def side() -> LinuxSide:
    found = find_board("unoq").linux_side
    assert found is not None
    return found


def told(words: tuple[str, ...]) -> str:
    """What the board's shell is told."""
    return " ".join(map(remote_word, words))


def registers(*, pc: int, xpsr: int, psp: int = 0) -> str:
    values = {
        "r0": 1,
        "sp": SP,
        "lr": BASE + 0x15,
        "pc": pc,
        "xPSR": xpsr,
        "psp": psp,
        "primask": 1,
    }
    lines = [f"({n}) {name} (/32): 0x{value:08x}" for n, (name, value) in enumerate(values.items())]
    return "\n".join(["===== arm v7m registers", *lines, ""])


def words_at(address: int, *words: int) -> str:
    """What ``mdw`` prints: eight words a line."""
    padded = [*words, *(0,) * (40 - len(words))] if len(words) > 5 else list(words)
    return "".join(
        f"0x{address + 4 * at:08x}: "
        + "".join(f"{each:08x} " for each in padded[at : at + 8])
        + "\n"
        for at in range(0, len(padded), 8)
    )


IDLE = registers(pc=BASE + 2, xpsr=0x01000000)
CRASHED = registers(pc=BASE + 0x1A, xpsr=0x61000003)
FAULTS = words_at(0xE000ED28, 0x8200, 0x40000000, 0, 0, 0xDEAD0000)
NO_FAULTS = words_at(0xE000ED28, 0, 0, 0, 0, 0)

LINUX: Mapping[str, Answer] = {
    "cat /proc/uptime": Answer("1234.56 99.0\n"),
    "systemctl is-system-running": Answer("degraded\n", code=1),
    "systemctl is-active arduino-router": Answer("active\n"),
}


def openocd_answers(core: str, faults: str, stack: str) -> dict[str, Answer]:
    """A board whose debugger shows this core; everything on standard error, as OpenOCD has it."""
    read = told(openocd.read_words(side(), NONCE_AT, 16))
    both = told(openocd.read_and_reset_words(side(), NONCE_AT, 16))
    first, second = (told(openocd.look_words(side(), stacks)) for stacks in ((), (SP,)))
    return {
        read: Answer(stderr=MDB + ENDED),
        both: Answer(stderr=MDB + ENDED),
        told(openocd.reset_words(side())): Answer(stderr=ENDED),
        first: Answer(stderr=core + faults + ENDED),
        second: Answer(stderr=core + faults + stack + ENDED),
        told(openocd.resume_words(side())): Answer(stderr=ENDED),
    }


def well() -> dict[str, Answer]:
    """A board that idles in its sketch."""
    return {**LINUX, **openocd_answers(IDLE, NO_FAULTS, words_at(SP, *range(40)))}


def crashed() -> dict[str, Answer]:
    """A board in its hard fault handler, the frame two words up the stack."""
    return {
        **LINUX,
        **openocd_answers(CRASHED, FAULTS, words_at(SP, 7, 0xFFFFFFF9, *FRAME, BASE + 0x25)),
    }


Open = Callable[[Mapping[str, Answer]], BackDoor]


@pytest.fixture
def behind(tmp_path: Path) -> Open:
    """The back door of a board that answers so."""

    def make(answers: Mapping[str, Answer]) -> BackDoor:
        return BackDoor(AdbDevice(fake_adb.board(tmp_path, answers, serial_number=SN), SN), side())

    return make


@pytest.fixture
def elf(tmp_path: Path) -> Path:
    """What should run: a call ends at 0x14 and at 0x24, the nonce is at 0x28."""
    code = bytes(16) + BL + bytes(12) + BL + bytes(4) + NONCE + bytes(8)
    functions = {"read_sensor": (BASE + 1, 16), "loop": (BASE + 0x11, 16), "main": (BASE + 0x21, 8)}
    path = tmp_path / "sketch.ino_debug.elf"
    path.write_bytes(arm_elf(code, functions, data={"hil_build_nonce": (NONCE_AT, 17)}))
    return path


def test_memory_is_read_and_the_chip_reset(behind: Open, tmp_path: Path) -> None:
    door = behind(well())
    door.check()
    assert door.read_memory(NONCE_AT, 16) == NONCE
    door.reset()
    assert door.read_and_reset(NONCE_AT, 16) == NONCE
    assert [call[-1] for call in fake_adb.calls(tmp_path)] == [
        "devices",
        "shutdown",
        '"init; reset run; shutdown"',
        "shutdown",
    ]


@pytest.mark.parametrize(
    ("address", "nbytes"), [(-1, 4), (1 << 32, 1), (0xFFFFFFFF, 2), (0, 0), (0, -1), (0, 1 << 20)]
)
def test_an_impossible_range_reaches_no_board(
    behind: Open, tmp_path: Path, address: int, nbytes: int
) -> None:
    door = behind(well())
    for read in (door.read_memory, door.read_and_reset):
        with pytest.raises(UsageError, match="cannot be read"):
            read(address, nbytes)
    assert not (tmp_path / "calls.txt").exists()


def test_a_board_without_openocd_is_told(behind: Open) -> None:
    with pytest.raises(OpenOcdFailed, match="there is no program '/opt/openocd/bin/openocd'"):
        behind(LINUX).reset()


def test_a_reset_that_fails_is_told_with_openocds_words(behind: Open) -> None:
    answer = Answer(stderr="Error: Error connecting DP: cannot read IDR\n", code=1)
    with pytest.raises(OpenOcdFailed, match="the chip does not answer its debugger") as caught:
        behind({told(openocd.reset_words(side())): answer}).reset()
    assert caught.value.evidence == ("Error: Error connecting DP: cannot read IDR",)


def test_a_crashed_core_is_examined_with_its_frame(behind: Open) -> None:
    seen = behind(crashed()).examine()
    assert (seen.pc, seen.lr, seen.fault_address) == (BASE + 4, BASE + 0x15, 0xDEAD0000)
    assert "precise data bus error" in seen.faults
    assert seen.in_fault_handler
    assert seen.stack[0] == BASE + 0x25


def test_an_idle_core_is_examined(behind: Open) -> None:
    seen = behind(well()).examine()
    assert (seen.pc, seen.frame, seen.faults) == (BASE + 2, None, ())
    assert seen.masks == ("PRIMASK=0x1",)
    assert seen.stack == tuple(range(40))


def test_a_core_that_ran_on_between_two_looks_has_no_stack(behind: Open) -> None:
    answers = well()
    second = told(openocd.look_words(side(), (SP,)))
    moved = IDLE.replace(f"{SP:08x}", f"{SP - 8:08x}")
    answers[second] = Answer(stderr=moved + NO_FAULTS + words_at(SP, *range(40)) + ENDED)
    assert behind(answers).examine().stack == ()


def test_a_stack_that_cannot_be_read_leaves_the_core_running(behind: Open, tmp_path: Path) -> None:
    answers = crashed()
    answers[told(openocd.look_words(side(), (SP,)))] = Answer(
        stderr=f"Error: [stm32u5x.cpu] Failed to read memory at 0x{SP:08x}\n", code=1
    )
    seen = behind(answers).examine()
    assert seen.in_fault_handler
    assert seen.frame is None
    # OpenOCD stopped at the command that failed, before the one that lets the core go on.
    last = fake_adb.calls(tmp_path)[-1]
    assert last[-4:] == ["-c", "resume", "-c", "shutdown"]
    assert "halt" not in last


def test_a_core_that_cannot_be_examined_is_an_error_and_let_go_on(
    behind: Open, tmp_path: Path
) -> None:
    first = told(openocd.look_words(side(), ()))
    with pytest.raises(OpenOcdFailed, match="exit code 1: timed out while waiting"):
        behind(
            {first: Answer(stderr="Error: timed out while waiting for target\n", code=1)}
        ).examine()
    assert "resume" in fake_adb.calls(tmp_path)[-1]


def test_the_linux_side_is_asked(behind: Open) -> None:
    state = behind(well()).linux_state()
    assert (state.uptime_s, state.system, state.router_active) == (1234.56, "degraded", True)
    assert not state.booting


def test_an_uptime_that_is_none_is_an_error(behind: Open) -> None:
    with pytest.raises(DeviceError, match="does not tell its uptime") as caught:
        behind({**LINUX, "cat /proc/uptime": Answer("no such thing\n")}).linux_state()
    assert caught.value.evidence == ("no such thing",)


def test_everything_is_asked_of_a_board_that_crashed(behind: Open, elf: Path) -> None:
    assert behind(crashed()).describe_silence(elf) == (
        "Linux side: up for 1235 s, degraded",
        "router: arduino-router is active",
        "firmware: the chip holds the expected build, nonce '0123456789abcdef'",
        f"the core is in the hard fault handler: {WHY}, called from loop+0x2",
        "interrupts are masked (PRIMASK=0x1), as where a core is parked",
        "calls found on the stack: main+0x2",
        "CFSR=0x00008200 HFSR=0x40000000",
        f"stacked: {STACKED}",
    )


WHY = "precise data bus error at 0xdead0000, in read_sensor+0x4"
STACKED = (
    "r0=0x00000001 r1=0x00000002 r2=0x00000003 r3=0xdead0000 r12=0x0000000c"
    " lr=0x10000015 pc=0x10000004 xpsr=0x61000000"
)


def test_a_router_that_does_not_run_is_told_with_its_last_words(behind: Open) -> None:
    answers = {
        **well(),
        "systemctl is-system-running": Answer("starting\n", code=1),
        "systemctl is-active arduino-router": Answer("failed\n", code=3),
        "systemctl status --no-pager --lines=3 arduino-router": Answer(
            "x arduino-router.service\n   Active: failed (Result: exit-code)\nno /dev/ttyHS1\n",
            code=3,
        ),
    }
    lines = behind(answers).describe_silence(None)
    assert lines[0] == "Linux side: up for 1235 s, starting"
    assert lines[1] == (
        "router: arduino-router is failed: nothing passes between the chip and USB; it has not"
        " finished booting"
    )
    assert lines[4] == "router: no /dev/ttyHS1"
    assert lines[5] == "firmware: which build runs cannot be told: no ELF is known"


def test_another_firmware_is_told(behind: Open, elf: Path) -> None:
    read = told(openocd.read_words(side(), NONCE_AT, 16))
    other = Answer(stderr=MDB.replace("30 31", "ff fe") + ENDED)
    lines = behind({**well(), read: other}).describe_silence(elf)
    assert lines[2] == (
        "firmware: the chip holds another build (nonce '\\\\xff\\\\xfe23456789abcdef', expected"
        " '0123456789abcdef'): an upload did not arrive"
    )


def test_a_question_that_fails_is_one_line_and_the_others_go_on(behind: Open, elf: Path) -> None:
    answers = {**well(), "cat /proc/uptime": Answer("", "sh: cannot fork\n", 2)}
    del answers[told(openocd.look_words(side(), ()))]
    lines = behind(answers).describe_silence(elf)
    assert lines[0].startswith("Linux side: could not be asked: the Linux side of board 'HILUNOQ0")
    assert lines[1].startswith("firmware: the chip holds the expected build")
    assert lines[2].startswith("core: could not be asked: examining the core through the board's")
    assert len(lines) == 3


def test_a_machine_without_adb_says_so(tmp_path: Path, elf: Path) -> None:
    door = BackDoor(AdbDevice(tmp_path / "absent" / "adb", SN), side())
    with pytest.raises(AdbMissing):
        door.check()
    lines = door.describe_silence(elf)
    assert len(lines) == 2
    assert "the board's Linux side cannot be asked: the program 'adb' is not at" in lines[0]
    assert "what to do: install" in lines[1]
    witness = BackDoorWitness(door, lambda: elf)
    assert witness.crash() is None
    assert witness.account() == lines


def test_a_witness_sees_a_crash_and_asks_nothing_while_it_waits(
    behind: Open, elf: Path, tmp_path: Path
) -> None:
    witness = BackDoorWitness(behind(crashed()), lambda: elf)
    witness.require_alive()
    assert not (tmp_path / "calls.txt").exists()
    crash = witness.crash()
    assert crash is not None
    assert "address 0xdead0000, in read_sensor+0x4, called from loop+0x2" in crash.why
    assert BackDoorWitness(behind(well()), lambda: elf).crash() is None
