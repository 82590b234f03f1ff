"""The stand-in for an Uno Q with an emulated chip: uploads, the look into the core, idle costs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import process
from harness.boards.board import find_board
from harness.clock import pause
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.emulator.image import payload_of
from harness.emulator.reply import ChipState
from tests.contract.test_adb_standin import OPENOCD, adb, reset, upload
from tests.emulated.rpc_firmware import build_arm, raw_image
from tests.plugged import open_port, wait_until

IDLE_S = 3.0


@pytest.fixture(scope="session")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware for an505 that speaks to the router."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    return build_arm(tmp_path_factory.mktemp("firmware"))


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[PluggedBoard]:
    """A stand-in for an Uno Q, plugged in, with nothing flashed."""
    with TemporaryDirectory(prefix="hil") as folder:
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        monkeypatch.setenv("HIL_CONFIG", str(Path(folder) / "no-config.toml"))
        yield plug_in(find_board("unoq"), lease_pid=os.getpid())
        for each in plugged_boards():
            each.unplug()


def openocd(board: PluggedBoard, *commands: str) -> process.Completed:
    words = [word for each in commands for word in ("-c", f'"{each}"')]
    return adb("-s", board.serial_number, *OPENOCD, *words)


def test_upload_boots_hears_and_resets(board: PluggedBoard, elf: Path, tmp_path: Path) -> None:
    with open_port(board) as port:
        for _ in range(2):
            assert upload(board, raw_image(elf), tmp_path).ok
            assert port.read(5) == b"boot\n"
            port.write(b"helloVWU")
            assert port.read(21) == b"hello0.6.0hi2refused\n"
            assert reset(board).ok
            assert port.read(5) == b"boot\n"
        port.write(b"FL")
        assert port.read(80_000) == b"0123456789abcde\n" * 5000
        assert port.read(4096) == bytes(ord("a") + n % 26 for n in range(4096))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_sketch_that_polls_costs_almost_nothing(
    board: PluggedBoard, elf: Path, tmp_path: Path
) -> None:
    with open_port(board) as port:
        assert upload(board, raw_image(elf), tmp_path).ok
        assert port.read(5) == b"boot\n"
        status = board.status()
        assert status.pid_of_chip is not None
        pids = (status.pid_of_chip, status.pid_of_owner)
        before_s = sum(map(cpu_s, pids))
        pause(IDLE_S)
        # 2 % of a processor is usual, and a chip that spins takes all of one.
        assert sum(map(cpu_s, pids)) - before_s < 0.5 * IDLE_S
        assert board.status().state is ChipState.RUNNING


def test_memory_and_registers_of_a_running_core(
    board: PluggedBoard, elf: Path, tmp_path: Path
) -> None:
    image = raw_image(elf)
    assert upload(board, image, tmp_path).ok
    at = payload_of(image).index(b"0123456789abcdef")
    read = openocd(board, "init", f"mdb {0x10000000 + at:#x} 16", "shutdown")
    assert f"0x{0x10000000 + at:08x}: 30 31 32 33 34 35 36 37 38 39 61 62" in read.stderr
    seen = openocd(board, "init", "halt", "reg", "mdw 0xe000ed28 5", "resume", "shutdown")
    assert seen.ok
    assert "===== arm v7m registers\n(0) r0 (/32): 0x" in seen.stderr
    assert re.search(r"^0xe000ed28: 0{8} 0{8}", seen.stderr, re.MULTILINE)
    absent = openocd(board, "init", "mdb 0xdead0000 4", "shutdown")
    assert absent.returncode == 1
    assert "Error: [stm32u5x.cpu] Failed to read memory at 0xdead0000" in absent.stderr


def test_core_that_was_halted_and_left_says_nothing_until_resumed(
    board: PluggedBoard, elf: Path, tmp_path: Path
) -> None:
    with open_port(board) as port:
        assert upload(board, raw_image(elf), tmp_path).ok
        assert port.read(5) == b"boot\n"
        assert openocd(board, "init", "halt", "shutdown").ok
        port.write(b"x")
        port.timeout = 0.2
        assert port.read(1) == b""
        assert openocd(board, "init", "resume", "shutdown").ok
        port.timeout = 10
        assert port.read(1) == b"x"


def test_crashed_core_is_silent_and_can_be_looked_into(
    board: PluggedBoard, elf: Path, tmp_path: Path
) -> None:
    with open_port(board) as port:
        assert upload(board, raw_image(elf), tmp_path).ok
        assert port.read(5) == b"boot\n"
        port.write(b"X")

        def crashed() -> bool:
            seen = openocd(board, "init", "halt", "mdw 0xe000ed28 5", "resume", "shutdown")
            return "00008200 40000000 00000000" in seen.stderr

        wait_until(crashed)
        look = openocd(board, "init", "halt", "reg", "resume", "shutdown")
        xpsr = re.search(r"\(16\) xpsr \(/32\): 0x([0-9a-f]{8})", look.stderr)
        assert xpsr is not None
        assert int(xpsr[1], 16) & 0x1FF == 3
        assert "current mode: Handler" in look.stderr


def test_reset_while_held_and_uploads_in_a_row(
    board: PluggedBoard, elf: Path, tmp_path: Path
) -> None:
    image = raw_image(elf)
    with open_port(board) as port:
        for _ in range(10):
            assert upload(board, image, tmp_path).ok
            assert port.read(5) == b"boot\n"
        assert openocd(board, "init", "reset halt", "shutdown").ok
        assert board.status().state is ChipState.EMPTY
        assert reset(board).ok
        assert port.read(5) == b"boot\n"
    assert board.status().boots == 11
