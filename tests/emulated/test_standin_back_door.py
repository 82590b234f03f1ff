"""The back door above the stand-in's adb: the same code as for a Uno Q on USB."""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import serial

from harness.arduino.build import Firmware, compile_sketch
from harness.arduino.cli import ArduinoCli
from harness.arduino.core_home import find_adb, open_core
from harness.arduino.sketch import read_sketch
from harness.arduino.standin import standin_dir
from harness.autopsy import command
from harness.backdoor import adb, adb_errors
from harness.backdoor.adb import AdbDevice
from harness.backdoor.back_door import BackDoor
from harness.backdoor.openocd import OpenOcdFailed
from harness.backdoor.witness import BackDoorWitness
from harness.boards.board import find_board
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.errors import CapabilityMissing, ToolError
from harness.serial.witness import Crash
from tests.plugged import open_port

SKETCH = """
__attribute__((noinline)) int read_sensor() { return *(volatile int *)0xDEAD0000; }
__attribute__((noinline)) void park() { noInterrupts(); for (;;) {} }
extern "C" __attribute__((noinline)) void et_pal_abort() { noInterrupts(); for (;;) {} }
void setup() { Serial.begin(115200); Serial.println("ready"); }
void loop() {
  if (Serial.available() == 0) return;
  int c = Serial.read();
  if (c == 'X') Serial.println(read_sensor());
  if (c == 'P') park();
  if (c == 'A') et_pal_abort();
}
"""


@dataclass(frozen=True)
class OnDesk:
    """A stand-in with the sketch on it, its port open, its back door."""

    plugged: PluggedBoard
    port: serial.Serial
    door: BackDoor
    firmware: Firmware

    def start(self) -> None:
        """Reset through the back door; the port stays open."""
        self.door.reset()
        assert self.port.read_until(b"ready\r\n").endswith(b"ready\r\n")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnDesk]:
    """Uploaded once for all; every test starts the board anew."""
    for program in ("qemu-system-arm", "arm-none-eabi-gcc"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    board = find_board("unoq")
    core = board.default_core_version
    assert board.linux_side is not None
    sketch = tmp_path_factory.mktemp("sketches") / "silenced" / "silenced.ino"
    sketch.parent.mkdir()
    sketch.write_text(SKETCH)
    with TemporaryDirectory(prefix="hil") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIL_RUN_DIR", folder)
        cli = _open(lambda: open_core(board, core, virtual=True))
        firmware = compile_sketch(cli, board, read_sketch(sketch.parent), None, progress=print)
        plugged = plug_in(board, lease_pid=os.getpid(), core_version=core.version)
        try:
            door = BackDoor(AdbDevice(find_adb(cli), plugged.serial_number), board.linux_side)
            with open_port(plugged) as port:
                words = ("upload", "--fqbn", board.fqbn, "-p", plugged.address)
                rest = ("--input-dir", str(firmware.folder), "--discovery-timeout", "10s")
                sent = cli.run((*words, *rest), timeout_s=120)
                assert sent.ok, sent.tail()
                yield OnDesk(plugged, port, door, firmware)
        finally:
            plugged.unplug()
            assert plugged_boards() == ()


def _open(opening: object) -> ArduinoCli:
    try:
        assert callable(opening)
        cli = opening()
    except (CapabilityMissing, ToolError) as error:
        pytest.skip(str(error))
    assert isinstance(cli, ArduinoCli)
    return cli


def test_the_build_on_the_board_is_known_without_its_port(desk: OnDesk) -> None:
    desk.door.check()
    address = desk.firmware.nonce_address
    assert address is not None
    assert desk.door.read_memory(address, 16) == desk.firmware.nonce.encode()
    assert desk.door.read_and_reset(address, 16) == desk.firmware.nonce.encode()
    assert desk.port.read_until(b"ready\r\n").endswith(b"ready\r\n")


def test_a_board_that_is_well_says_so(desk: OnDesk) -> None:
    desk.start()
    lines = desk.door.describe_silence(desk.firmware.symbols)
    assert re.match(r"Linux side: up for \d+ s, ", lines[0])
    assert lines[1:3] == (
        "router: arduino-router is active",
        f"firmware: the chip holds the expected build, nonce '{desk.firmware.nonce}'",
    )
    assert re.match(r"the core is in (thread mode|the handler of interrupt \d+), in \S", lines[3])
    # It was stopped for the look and went on.
    desk.start()


def crash_soon(witness: BackDoorWitness) -> Crash:
    """The crash of a core that was just told to; it takes some looks until it is there."""
    for _ in range(50):
        if (crash := witness.crash()) is not None:
            return crash
    pytest.fail("no crash was seen in 50 looks")


def test_a_hard_fault_is_named_with_function_and_line(desk: OnDesk) -> None:
    desk.start()
    desk.port.write(b"X")
    witness = BackDoorWitness(desk.door, lambda: desk.firmware.symbols)
    crash = crash_soon(witness)
    assert re.search(
        r"precise data bus error.* address 0xdead0000, in read_sensor \(silenced\.ino:2\),"
        r" called from loop \(silenced\.ino:\d+\)",
        crash.why,
    )
    assert any("calls found on the stack: main " in line for line in crash.evidence)
    account = "\n".join(witness.account())
    assert "the core is in the hard fault handler: precise data bus error at 0xdead0000" in account


def test_a_parked_core_is_found_where_it_is_parked(desk: OnDesk) -> None:
    desk.start()
    desk.port.write(b"P")
    line = ""
    for _ in range(50):
        line = desk.door.describe_silence(desk.firmware.symbols)[3]
        if "park" in line:
            break
    assert re.match(r"the core is in thread mode, in park \(silenced\.ino:3\)", line)
    assert BackDoorWitness(desk.door, lambda: desk.firmware.symbols).crash() is None


def test_a_failed_assertion_is_a_crash_although_nothing_faulted(desk: OnDesk) -> None:
    desk.start()
    desk.port.write(b"A")
    witness = BackDoorWitness(desk.door, lambda: desk.firmware.symbols)
    crash = crash_soon(witness)
    assert crash.why.startswith("it has given up, et_pal_abort is where a fatal assertion of the")
    assert "CFSR=0x00000000 HFSR=0x00000000" in crash.evidence


def test_what_cannot_be_read_is_an_error(desk: OnDesk) -> None:
    with pytest.raises(OpenOcdFailed, match="the chip's memory there cannot be read"):
        desk.door.read_memory(0xEFFC0000, 4)


def test_the_command_tells_the_same(desk: OnDesk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.start()
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    symbols = desk.firmware.symbols
    assert symbols is not None
    arguments = parser.parse_args(
        ["autopsy", f"--serial-number={desk.plugged.serial_number}", f"--elf={symbols}"]
    )
    assert arguments.func(arguments) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "router: arduino-router is active"
    assert said[3].startswith("the core is in ")


def ask(device: AdbDevice) -> None:
    """Who only lists boards does not see that one hangs."""
    device.check()
    device.shell(("true",))


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("unauthorized", adb_errors.AdbUnauthorized),
        ("offline", adb_errors.AdbOffline),
        ("no permissions", adb_errors.AdbNoPermission),
        ("absent", adb_errors.AdbNoDevice),
        ("twice", adb_errors.AdbSeveral),
        ("wedged", adb_errors.AdbWedged),
    ],
)
def test_every_state_of_adb_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, kind: type[adb_errors.AdbError]
) -> None:
    """Needs neither QEMU nor a compiler: adb is asked before the chip."""
    side = find_board("unoq").linux_side
    assert side is not None
    behave = tmp_path / "behave.toml"
    behave.write_text(f'[adb]\nstate = "{state}"\n')
    monkeypatch.setattr(adb, "SHELL_TIMEOUT_S", 1.0)
    with TemporaryDirectory(prefix="hil") as folder:
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        plugged = plug_in(find_board("unoq"), lease_pid=os.getpid(), behave=behave)
        try:
            device = AdbDevice(standin_dir() / "tools" / "adb", plugged.serial_number)
            with pytest.raises(kind):
                ask(device)
            lines = BackDoor(device, side).describe_silence(None)
        finally:
            plugged.unplug()
    assert "could not be asked: " in lines[0] or "cannot be asked: " in lines[0]
    assert lines[1].startswith("  what to do: ")


def test_a_board_that_is_unplugged_is_told(
    desk: OnDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_RUN_DIR", str(tmp_path))
    with pytest.raises(
        adb_errors.AdbNoDevice, match="adb sees no board: 'HILUNOQ0001' was asked for"
    ):
        desk.door.check()
    assert desk.door.describe_silence(None)[0].startswith(
        "the board's Linux side cannot be asked: adb sees no board"
    )
