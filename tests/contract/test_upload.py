"""Uploads with small real children in arduino-cli's place: one fails, one lies, two hang."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import cast

import pytest

from harness import process
from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.footprint import Footprint
from harness.arduino.port import Port
from harness.arduino.upload import Running, upload
from harness.boards.board import find_board
from harness.clock import Deadline, monotonic_s
from harness.desk.desk import Desk
from harness.desk.virtual_station import VirtualStation
from harness.emulator.client import PluggedBoard
from harness.errors import DeviceError, ToolError
from harness.serial.session import Session
from harness.storage.digest import file_digest

FLASH = "flash(sha)\n"
HANG = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)\n"
PREPARED = """
import hashlib, os, pathlib, sys, time
world = pathlib.Path({world!r})
(world / "pid").write_text(str(os.getppid()))
sha = hashlib.sha256((pathlib.Path(sys.argv[-1]) / "echo.ino.elf").read_bytes()).hexdigest()
def flash(digest):
    boots = int((world / "board").read_text().split()[0])
    (world / "new").write_text(f"{{boots + 1}} {{digest}}")
    (world / "new").replace(world / "board")
def wait_for(name):
    for _ in range(6000):
        if (world / name).exists(): return
        time.sleep(0.005)
"""


class World:
    """A board that is a file, and an arduino-cli that does as it is told."""

    def __init__(self, folder: Path, firmware: Firmware) -> None:
        self.folder = folder
        self.firmware = firmware
        self.board = find_board("m33")
        self.reset_board("0 none")

    def reset_board(self, state: str) -> None:
        (self.folder / "board").write_text(state)

    def cli(self, body: str) -> ArduinoCli:
        script = self.folder / "arduino-cli"
        head = f"#!{sys.executable} -SE\n" + PREPARED.format(world=str(self.folder))
        script.write_text(head + body)
        script.chmod(0o755)
        return ArduinoCli(script, self.folder / "config", self.folder)

    def running(self) -> Running:
        boots, digest = (self.folder / "board").read_text().split()
        return Running(int(boots), digest)

    def tool_has_begun(self) -> bool:
        """Whether it has written its number, all of it."""
        pid = self.folder / "pid"
        return pid.exists() and pid.read_text().strip() != ""

    def tool_lives(self) -> bool:
        return process.alive(int((self.folder / "pid").read_text()))


@pytest.fixture
def world(tmp_path: Path) -> World:
    elf = tmp_path / "firmware" / "echo.ino.elf"
    elf.parent.mkdir()
    elf.write_bytes(b"an image")
    firmware = Firmware(
        sketch="echo",
        board="m33",
        core_version="0.1.0",
        key="k",
        nonce="k",
        folder=elf.parent,
        elf=elf,
        footprint=Footprint(1, 2, 1, 2),
        command=(),
        library=None,
        cached=False,
    )
    return World(tmp_path, firmware)


def test_it_returns_when_the_board_runs_and_the_call_is_judged_later(world: World) -> None:
    cli = world.cli(FLASH + "wait_for('go')\n")
    call = upload(cli, world.board, world.firmware, address="/p", running=world.running)
    assert not call.ended
    assert world.tool_lives()
    (world.folder / "go").touch()
    call.finish(Deadline.after(20))
    assert call.ended
    assert not world.tool_lives()
    call.finish(Deadline.after(0))  # a second time says nothing


def test_a_call_that_fails_after_the_board_runs_is_a_fault(world: World) -> None:
    late = "wait_for('go'); print('port lost', file=sys.stderr); sys.exit(5)\n"
    call = upload(
        world.cli(FLASH + late), world.board, world.firmware, address="/p", running=world.running
    )
    (world.folder / "go").touch()
    with pytest.raises(ToolError, match="'echo' to '/p' failed with exit code 5: port lost"):
        call.finish(Deadline.after(20))
    assert not world.tool_lives()


DONE = re.compile(r"^flashed \d+ bytes$", re.MULTILINE)
SAY_DONE = "print('flashed 8 bytes', flush=True)\n"


def test_once_the_tool_is_done_nobody_waits_for_the_rest(world: World) -> None:
    """As arduino-cli, which then watches the ports for a second."""
    rest = "(world / 'said').touch(); wait_for('never')\n"
    call = upload(
        world.cli(FLASH + SAY_DONE + rest),
        world.board,
        world.firmware,
        address="/p",
        running=world.running,
        tool_done=DONE,
    )
    assert "--json" not in call.argv
    began_s = monotonic_s()
    call.finish(Deadline.after(20))
    assert monotonic_s() - began_s < 10
    assert call.ended
    assert not world.tool_lives()


def test_a_tool_that_is_not_done_is_waited_for_and_judged(world: World) -> None:
    late = "print('flashed', flush=True); wait_for('go'); sys.exit(5)\n"
    call = upload(
        world.cli(FLASH + late),
        world.board,
        world.firmware,
        address="/p",
        running=world.running,
        tool_done=DONE,
    )
    (world.folder / "go").touch()
    with pytest.raises(ToolError, match="failed with exit code 5: flashed"):
        call.finish(Deadline.after(20))


def test_a_call_that_fails_although_the_tool_was_done_is_a_fault(world: World) -> None:
    cli = world.cli("print('flashed 8 bytes', flush=True)\nsys.exit(5)\n")
    with pytest.raises(ToolError, match="failed with exit code 5"):
        upload(
            cli,
            world.board,
            world.firmware,
            address="/p",
            running=world.running,
            tool_done=DONE,
        )


def test_looking_at_the_output_does_not_overwrite_it(world: World) -> None:
    lines = "".join(
        f"print('line {n} ' + 'x' * 50, flush=True); time.sleep(0.03)\n" for n in range(20)
    )
    call = upload(
        world.cli(FLASH + lines + "sys.exit(5)\n"),
        world.board,
        world.firmware,
        address="/p",
        running=world.running,
        tool_done=DONE,
    )
    with pytest.raises(ToolError) as got:
        call.finish(Deadline.after(20))
    said = [line.split()[1] for line in got.value.evidence]
    assert said == [str(n) for n in range(10, 20)]


def test_a_call_that_fails_early_is_reported_at_once(world: World) -> None:
    cli = world.cli("print('no such port', file=sys.stderr); sys.exit(1)\n")
    began_s = monotonic_s()
    with pytest.raises(ToolError, match="exit code 1: no such port") as caught:
        upload(cli, world.board, world.firmware, address="/p", running=world.running)
    assert monotonic_s() - began_s < 10
    assert caught.value.evidence == ("no such port",)


def test_the_reason_is_the_tools_last_error_not_that_a_program_failed(world: World) -> None:
    lines = [
        "Error: timed out",
        "Error: flash write failed",
        "Error: running OpenOCD: exit status 1",
    ]
    said = "; ".join(f"print({each!r}, file=sys.stderr)" for each in (*lines, "exit status 1"))
    with pytest.raises(ToolError, match=r"exit code 1: Error: flash write failed$") as caught:
        upload(
            world.cli(f"{said}; sys.exit(1)\n"),
            world.board,
            world.firmware,
            address="/p",
            running=world.running,
        )
    assert caught.value.evidence == (*lines, "exit status 1")


def test_success_without_flashing_is_not_believed(world: World) -> None:
    with pytest.raises(DeviceError, match="runs another firmware than 'echo'"):
        upload(world.cli(""), world.board, world.firmware, address="/p", running=world.running)


def test_the_same_firmware_from_before_is_not_believed(world: World) -> None:
    world.reset_board(f"3 {file_digest(world.firmware.elf)}")
    with pytest.raises(DeviceError, match="was not flashed with 'echo'") as caught:
        upload(world.cli(""), world.board, world.firmware, address="/p", running=world.running)
    assert "3 before, 3 now" in caught.value.evidence[-1]


def test_another_image_than_the_one_given_is_not_believed(world: World) -> None:
    cli = world.cli("flash('0' * 64)\n")
    with pytest.raises(DeviceError, match="runs another firmware"):
        upload(cli, world.board, world.firmware, address="/p", running=world.running)


def test_a_call_that_hangs_before_it_flashes_is_ended(world: World) -> None:
    cli = world.cli("print('waiting', file=sys.stderr, flush=True)\n" + HANG)
    with pytest.raises(ToolError, match="did not end within") as caught:
        upload(
            cli,
            world.board,
            world.firmware,
            address="/p",
            running=world.running,
            timeout_s=1.0,
        )
    assert caught.value.evidence == ("waiting",)
    assert not world.tool_lives()


def test_a_call_that_hangs_after_the_board_runs_is_ended(world: World) -> None:
    cli = world.cli(FLASH + HANG)
    call = upload(cli, world.board, world.firmware, address="/p", running=world.running)
    with pytest.raises(ToolError, match="did not end within"):
        call.finish(Deadline.after(0.1))
    assert not world.tool_lives()


def test_nothing_is_left_when_the_board_goes_away(world: World) -> None:
    looks = iter([Running(0, None)])

    def running() -> Running:
        for each in looks:
            return each
        while not world.tool_has_begun():
            pass
        raise DeviceError("the board is gone", remedy="plug it in")

    with pytest.raises(DeviceError, match="gone"):
        upload(
            world.cli("time.sleep(60)\n"),
            world.board,
            world.firmware,
            address="/p",
            running=running,
        )
    assert not world.tool_lives()


def test_a_board_that_cannot_be_asked_is_waited_for(world: World) -> None:
    call = upload(world.cli("time.sleep(0.2)\n"), world.board, world.firmware, address="/p")
    assert call.ended
    with pytest.raises(ToolError, match="exit code 2, and printed no reason"):
        upload(world.cli("sys.exit(2)\n"), world.board, world.firmware, address="/p")


class FakeStatus:
    def __init__(self, running: Running) -> None:
        self.boots = running.boots
        self.firmware_sha256 = running.digest
        self.sent_bytes_at_boot = 0


class FakeBoard:
    def __init__(self, world: World) -> None:
        self.world = world
        self.unplugged = False

    def status(self) -> FakeStatus:
        return FakeStatus(self.world.running())

    def unplug(self) -> None:
        self.unplugged = True


class FakeSession:
    def __init__(self) -> None:
        self.closed = False

    def skip_received(self) -> None:
        pass

    def skip_to(self, offset: int) -> None:
        pass

    def mark(self, kind: str, **facts: object) -> None:
        assert kind in ("call", "reset")
        assert facts

    def close(self) -> None:
        self.closed = True


def station(world: World) -> tuple[VirtualStation, FakeBoard, FakeSession]:
    board, session = FakeBoard(world), FakeSession()
    made = VirtualStation(
        world.board,
        Port("/p", "0x1209", "0x0033", "HILM330001", "p"),
        cast(Session, session),
        lambda _: None,
        plugged=cast(PluggedBoard, board),
        own=True,
        sent_before_bytes=0,
    )
    return made, board, session


def test_the_next_flash_tells_of_an_earlier_call_that_failed(world: World) -> None:
    made, _, _ = station(world)
    made.flash(world.cli(FLASH + "wait_for('go'); sys.exit(7)\n"), world.firmware)
    (world.folder / "go").touch()
    while world.tool_lives():
        pass
    with pytest.raises(ToolError, match="exit code 7"):
        made.flash(world.cli(FLASH), world.firmware)
    assert made.running is None
    made.flash(world.cli(FLASH), world.firmware)
    made.close()


def test_closing_tells_of_it_and_gives_everything_back(world: World) -> None:
    made, board, session = station(world)
    desk = Desk(None)
    desk._station = made
    given_back: list[str] = []
    desk.on_close(lambda: given_back.append("other"))
    made.flash(world.cli(FLASH + "wait_for('go'); sys.exit(7)\n"), world.firmware)
    (world.folder / "go").touch()
    with pytest.raises(ToolError, match="exit code 7"):
        desk.close()
    assert (board.unplugged, session.closed, given_back) == (True, True, ["other"])
    assert not world.tool_lives()
    desk.close()
