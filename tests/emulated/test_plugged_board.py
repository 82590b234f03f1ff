"""Boards that QEMU plays, alone and through the real arduino-cli."""

from __future__ import annotations

import os
import re
import shutil
import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import process
from harness.arduino import cli as arduino_cli
from harness.boards.board import find_board
from harness.clock import monotonic_s, pause
from harness.emulator import look
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.emulator.reply import ChipState
from harness.emulator.witness import BoardWitness
from harness.errors import CapabilityMissing, DeviceError, DutFailure, ToolError, UsageError
from tests.emulated.bare_firmware import build_arm, build_native
from tests.plugged import open_port, wait_until

SKETCH = """
void setup() { Serial.begin(115200); Serial.println("from a sketch"); }
void loop() { int c = Serial.read(); if (c >= 0) Serial.write(c); }
"""


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare firmware for an505 that says "boot" and echoes."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    return build_arm(tmp_path_factory.mktemp("firmware"))


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of its own; every board in it is gone afterwards."""
    with TemporaryDirectory(prefix="hil") as folder:
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        yield Path(folder)
        for each in plugged_boards():
            each.unplug()


@pytest.fixture
def board(run_dir: Path) -> PluggedBoard:
    """An emulated Cortex-M33, plugged in, with nothing flashed."""
    assert run_dir.is_dir()
    return plug_in(find_board("m33"), lease_pid=os.getpid())


def test_boots_echoes_and_passes_every_byte(board: PluggedBoard, firmware: Path) -> None:
    with open_port(board) as port:
        for _ in range(3):
            board.flash(firmware)
            assert port.read(5) == b"boot\n"
            port.write(b"hello")
            assert port.read(5) == b"hello"
            port.write(b"N")
            assert port.read(256) == bytes(range(256))
            board.reset()
            assert port.read(5) == b"boot\n"


def test_quiet_board_hears_at_once(board: PluggedBoard, firmware: Path) -> None:
    with open_port(board) as port:
        board.flash(firmware)
        assert port.read(5) == b"boot\n"
        # By now QEMU's main loop sleeps; without a nudge the first byte waits for ever.
        pause(0.5)
        started_s = monotonic_s()
        port.write(b"x")
        assert port.read(1) == b"x"
        assert monotonic_s() - started_s < 0.5


def test_slow_reader_holds_qemu_back(board: PluggedBoard, firmware: Path) -> None:
    with open_port(board) as port:
        board.flash(firmware)
        port.write(b"F")
        assert port.read(5) == b"boot\n"
        wait_until(lambda: board.status().queued_bytes >= 65536)
        for _ in range(50):
            assert port.read(1600) == b"0123456789abcde\n" * 100
        assert board.status().dropped_bytes == 0


def test_killed_qemu_is_a_dead_chip(board: PluggedBoard, firmware: Path) -> None:
    board.flash(firmware)
    chip = board.status().pid_of_chip
    assert chip is not None
    os.kill(chip, signal.SIGKILL)
    wait_until(lambda: board.status().state is ChipState.DIED)
    with pytest.raises(DeviceError, match=r"the chip of board 'HILM330001' died: .* SIGKILL"):
        board.status().check_alive(board.serial_number)
    board.reset()
    board.status().check_alive(board.serial_number)


def locked_up(firmware: Path, target: Path) -> Path:
    """The same program with its vectors wiped: the core locks up at once and QEMU gives up."""
    data = bytearray(firmware.read_bytes())
    (offset,) = struct.unpack_from("<I", data, struct.unpack_from("<I", data, 28)[0] + 4)
    data[offset : offset + 64] = bytes(64)
    target.write_bytes(data)
    return target


def test_qemu_that_gives_up_leaves_its_last_words(
    board: PluggedBoard, firmware: Path, tmp_path: Path
) -> None:
    board.flash(locked_up(firmware, tmp_path / "wiped.elf"))
    wait_until(lambda: board.status().state is ChipState.DIED)
    with pytest.raises(DutFailure, match="locked up") as caught:
        board.status().check_alive(board.serial_number)
    assert "Lockup" in caught.value.evidence[0]


def test_missing_qemu_is_named(
    run_dir: Path, firmware: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(run_dir))
    board = plug_in(find_board("m33"), lease_pid=os.getpid())
    with pytest.raises(ToolError, match="cannot start 'qemu-system-arm': No such file"):
        board.flash(firmware)
    assert board.status().state is ChipState.EMPTY


def test_killed_owner_leaves_no_qemu(board: PluggedBoard, firmware: Path) -> None:
    board.flash(firmware)
    chip = board.status().pid_of_chip
    assert chip is not None
    os.kill(board.record.pid_of_owner, signal.SIGKILL)
    wait_until(lambda: not process.alive(chip))
    assert plugged_boards() == ()


def test_native_program_is_refused(board: PluggedBoard, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"64-bit .* program and this board runs Arm"):
        board.flash(build_native(tmp_path))


def test_autopsy_of_a_fault_names_the_instruction(board: PluggedBoard, firmware: Path) -> None:
    with open_port(board) as port:
        board.flash(firmware)
        assert port.read(5) == b"boot\n"
        assert look.examine(board).faults == ()
        port.write(b"X")
        wait_until(lambda: look.examine(board).frame is not None)
    found = look.examine(board)
    assert "precise data bus error" in found.faults
    assert found.fault_address == 0xDEAD0000
    # "ldr r3, [r3]" in crash().
    assert look.memory(board, found.pc, 2) == b"\x1b\x68"
    # The firmware that the board runs names the addresses.
    account = BoardWitness(board).account()
    assert re.match(r"the chip is (running|paused), has booted 1 times, last \d+ s ago", account[0])
    assert re.match(
        r"the core is in the hard fault handler: precise data bus error at 0xdead0000,"
        r" in crash \(bare\.c:\d+\)",
        account[1],
    )
    crash = BoardWitness(board).crash()
    assert crash is not None
    assert re.search(r"address 0xdead0000, in crash \(bare\.c:\d+\)", crash.why)
    with pytest.raises(UsageError, match="cannot be read"):
        look.memory(board, 0xFFFFFFFF, 2)
    with pytest.raises(DeviceError, match="no memory at 0xeffc0000"):
        look.memory(board, 0xEFFC0000, 4)


def test_paused_board_can_be_looked_into(board: PluggedBoard, firmware: Path) -> None:
    board.flash(firmware)
    wait_until(lambda: board.status().state is ChipState.PAUSED)
    assert look.examine(board).pc >= 0x10000000
    assert re.match(
        r"the core is in thread mode, in reset \(bare\.c:\d+\)", look.story_of_plugged(board)[0]
    )


def test_empty_board_cannot_be_looked_into(board: PluggedBoard) -> None:
    with pytest.raises(ToolError, match="nothing runs on the board"):
        look.examine(board)


def run_cli(cli: arduino_cli.ArduinoCli, *arguments: str) -> process.Completed:
    return cli.run(arguments, timeout_s=120)


def test_arduino_cli_lists_compiles_and_uploads(run_dir: Path, tmp_path: Path) -> None:
    """Two boards of one kind, one of another; plain commands as in anyone's shell."""
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    try:
        cli = arduino_cli.open_cli()
    except (CapabilityMissing, ToolError) as error:
        pytest.skip(str(error))
    boards = [plug_in(find_board(name), lease_pid=os.getpid()) for name in ("m33", "m33", "host")]
    listed = run_cli(cli, "board", "list", "--json")
    for each in boards:
        assert each.address.startswith(str(run_dir))
        assert each.address in listed.stdout
        assert each.fqbn in listed.stdout
    sketch = tmp_path / "said" / "said.ino"
    sketch.parent.mkdir()
    sketch.write_text(SKETCH)
    for fqbn, plugged in ((boards[0].fqbn, boards[:2]), (boards[2].fqbn, boards[2:])):
        build = str(tmp_path / fqbn.rpartition(":")[2])
        made = run_cli(cli, "compile", "--fqbn", fqbn, "--build-path", build, str(sketch.parent))
        assert made.ok, made.tail()
        for each in plugged:
            with open_port(each) as port:
                sent = run_cli(
                    cli, "upload", "--fqbn", fqbn, "-p", each.address, "--input-dir", build
                )
                assert sent.ok, sent.tail()
                assert port.read(15) == b"from a sketch\r\n"
                port.write(b"abc")
                assert port.read(3) == b"abc"
