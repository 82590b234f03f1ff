"""A native board from the outside: its owner process, port, control socket and both tools."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import paths, process
from harness.boards.board import find_board
from harness.clock import pause
from harness.emulator import command
from harness.emulator.client import PluggedBoard, find_plugged, plug_in, plugged_boards
from harness.emulator.line import QUEUE_BYTES
from harness.emulator.reply import ChipState
from harness.errors import DeviceError, DutFailure, HilError, ToolError, UsageError
from tests import plugged
from tests.emulated.bare_firmware import build_native
from tests.plugged import open_port

wait_until = partial(plugged.wait_until, timeout_s=10)
"""A native board needs half the time that an emulated one may take."""

TOOLS = paths.platform_dir() / "hil" / "virtual" / "tools"
ROOT = Path(command.__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def firmware(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that says "boot" and echoes."""
    return build_native(tmp_path_factory.mktemp("firmware"))


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of its own; every board in it must be gone afterwards, and is."""
    with TemporaryDirectory(prefix="hil") as folder:
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        yield Path(folder)
        for each in plugged_boards():
            each.unplug()
        boards = Path(folder) / "boards"
        assert not boards.is_dir() or [each.name for each in boards.iterdir()] == [".lock"]


@pytest.fixture
def board(run_dir: Path) -> PluggedBoard:
    """A native board, plugged in, with nothing flashed."""
    assert run_dir.is_dir()
    return plug_in(find_board("host"), lease_pid=os.getpid())


def flash_unread(board: PluggedBoard, firmware: Path) -> None:
    """Flash with the port closed, and wait until the boot message has come and gone."""
    board.flash(firmware)
    wait_until(lambda: board.status().dropped_bytes == 5)


def readable(fd: int, timeout_s: float) -> bool:
    return bool(select.select([fd], [], [], timeout_s)[0])


def test_plugged_in_board_is_listed_and_silent(board: PluggedBoard, run_dir: Path) -> None:
    assert plugged_boards() == (board,)
    assert board.serial_number == "HILHOST0001"
    assert board.address == str(run_dir / "boards" / "HILHOST0001" / "tty")
    assert board.status().state is ChipState.EMPTY
    with open_port(board) as port:
        board.reset()
        assert not readable(port.fileno(), 0.2)


def test_firmware_boots_and_port_outlives_reset_and_flash(
    board: PluggedBoard, firmware: Path
) -> None:
    with open_port(board) as port:
        for boots in (1, 2):
            board.flash(firmware)
            assert port.read(5) == b"boot\n"
            assert board.status().boots == 2 * boots - 1
            assert board.reset() == 2 * boots
            assert port.read(5) == b"boot\n"
        port.write(b"hello")
        assert port.read(5) == b"hello"


def test_every_byte_passes_both_ways(board: PluggedBoard, firmware: Path) -> None:
    flash_unread(board, firmware)
    with open_port(board) as port:
        port.write(b"N")
        assert port.read(256) == bytes(range(256))
        every = bytes(sorted(set(range(256)) - set(b"FNSX")))
        port.write(every)
        assert port.read(len(every)) == every


def test_output_with_no_reader_is_dropped(board: PluggedBoard, firmware: Path) -> None:
    flash_unread(board, firmware)
    with open_port(board) as port:
        assert not readable(port.fileno(), 0.1)
        port.write(b"x")
        assert port.read(1) == b"x"


def test_opening_the_port_never_resets(board: PluggedBoard, firmware: Path) -> None:
    flash_unread(board, firmware)
    for _ in range(5):
        with open_port(board) as port:
            port.write(b"x")
            assert port.read(1) == b"x"
    assert board.status().boots == 1


def test_what_one_reader_left_the_next_does_not_get(board: PluggedBoard, firmware: Path) -> None:
    flash_unread(board, firmware)
    with open_port(board) as port:
        port.write(b"NN")
        wait_until(lambda: board.status().sent_bytes == 512)
    wait_until(lambda: not board.status().reader)
    with open_port(board) as port:
        assert not readable(port.fileno(), 0.1)


def test_input_typed_before_a_flash_is_dropped(board: PluggedBoard, firmware: Path) -> None:
    with open_port(board) as port:
        port.write(b"early")
        board.flash(firmware)
        assert port.read(5) == b"boot\n"
        port.write(b"late")
        assert port.read(4) == b"late"


def test_line_typed_by_a_shell_that_closes_at_once_arrives(
    board: PluggedBoard, firmware: Path
) -> None:
    flash_unread(board, firmware)
    Path(board.address).write_bytes(b"typed\n")
    wait_until(lambda: board.status().received_bytes == 6)
    # The echo is dropped, or still reaches the shell that does not read it.
    wait_until(lambda: board.status().dropped_bytes + board.status().sent_bytes == 11)


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_slow_reader_holds_the_flood_back(board: PluggedBoard, firmware: Path) -> None:
    flash_unread(board, firmware)
    owner = board.status().pid_of_owner
    with open_port(board) as port:
        before_kb = resident_kb(owner)
        port.write(b"F")
        wait_until(lambda: board.status().queued_bytes >= QUEUE_BYTES)
        pause(0.2)
        status = board.status()
        assert status.queued_bytes < 3 * QUEUE_BYTES
        assert status.dropped_bytes == 5
        for _ in range(50):
            assert port.read(160) == b"0123456789abcde\n" * 10
        assert resident_kb(owner) - before_kb < 4096


def test_reader_that_leaves_in_a_flood_takes_nothing_along(
    board: PluggedBoard, firmware: Path
) -> None:
    flash_unread(board, firmware)
    with open_port(board) as port:
        port.write(b"F")
        assert port.read(16) == b"0123456789abcde\n"
    wait_until(lambda: board.status().dropped_bytes > 1_000_000)
    board.reset()
    with open_port(board) as port:
        board.reset()
        assert port.read(5) == b"boot\n"


def test_dead_chip_is_named_with_its_last_words(board: PluggedBoard, firmware: Path) -> None:
    with open_port(board) as port:
        board.flash(firmware)
        port.write(b"X")
        wait_until(lambda: board.status().state is ChipState.DIED)
        with pytest.raises(DutFailure, match="died: it was ended by SIGABRT") as caught:
            board.status().check_alive(board.serial_number)
        assert caught.value.evidence == ("about to abort",)
        assert port.read(5) == b"boot\n"
        board.reset()
        assert port.read(5) == b"boot\n"


def test_board_nobody_reads_stands_still_until_somebody_does(
    board: PluggedBoard, firmware: Path
) -> None:
    board.flash(firmware)
    wait_until(lambda: board.status().state is ChipState.PAUSED)
    with open_port(board) as port:
        port.write(b"x")
        assert port.read(1) == b"x"
        assert board.status().state is ChipState.RUNNING


def test_refused_firmware_leaves_the_board_as_it_was(
    board: PluggedBoard, firmware: Path, tmp_path: Path
) -> None:
    sha256 = board.flash(firmware)
    garbage = tmp_path / "garbage.elf"
    garbage.write_bytes(b"garbage")
    cut = tmp_path / "cut.elf"
    cut.write_bytes(firmware.read_bytes()[:-100])
    for wrong, words in ((garbage, "not an ELF"), (cut, "truncated"), (tmp_path, "regular file")):
        with pytest.raises(ToolError, match=words):
            board.flash(wrong)
    with pytest.raises(ToolError, match=r"absent\.elf' cannot be read: No such file"):
        board.flash(tmp_path / "absent.elf")
    status = board.status()
    assert (status.firmware_sha256, status.boots) == (sha256, 1)


def test_firmware_may_vanish_after_the_flash(
    board: PluggedBoard, firmware: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.elf"
    copy.write_bytes(firmware.read_bytes())
    with open_port(board) as port:
        board.flash(copy)
        copy.unlink()
        assert port.read(5) == b"boot\n"
        board.reset()
        assert port.read(5) == b"boot\n"


@pytest.mark.parametrize("request_line", [b"\x00\xff\n", b'{"op": 7}\n', b"x" * 200_000 + b"\n"])
def test_garbage_at_the_control_socket_harms_nobody(
    board: PluggedBoard, request_line: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(board.record.control)
        try:
            client.sendall(request_line)
            assert b'"ok": false' in client.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            assert len(request_line) > 65536
    assert board.status().state is ChipState.EMPTY


def chip_of(board: PluggedBoard) -> int:
    pid = board.status().pid_of_chip
    assert pid is not None
    return pid


def test_killed_owner_takes_its_chip_along(
    board: PluggedBoard, firmware: Path, run_dir: Path
) -> None:
    board.flash(firmware)
    chip = chip_of(board)
    os.kill(board.record.pid_of_owner, signal.SIGKILL)
    wait_until(lambda: not process.alive(chip) and not board.record.owner.alive)
    assert discovered(run_dir) == []
    with pytest.raises(DeviceError, match="is not plugged in"):
        board.status()
    again = plug_in(find_board("host"), lease_pid=os.getpid())
    assert again.serial_number == board.serial_number


def test_killed_owner_takes_a_stopped_chip_along(board: PluggedBoard, firmware: Path) -> None:
    board.flash(firmware)
    wait_until(lambda: board.status().state is ChipState.PAUSED)
    chip = chip_of(board)
    os.kill(board.record.pid_of_owner, signal.SIGKILL)
    wait_until(lambda: not process.alive(chip))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ended_owner_unplugs(board: PluggedBoard, firmware: Path, number: signal.Signals) -> None:
    board.flash(firmware)
    chip = chip_of(board)
    os.kill(board.record.pid_of_owner, number)
    wait_until(lambda: not board.record.owner.alive)
    assert not process.alive(chip)
    assert not Path(board.address).parent.exists()


def test_board_goes_with_the_process_that_holds_its_lease(run_dir: Path) -> None:
    holder = process.spawn(["sleep", "60"])
    board = plug_in(find_board("host"), lease_pid=holder.pid)
    process.end(holder)
    wait_until(lambda: not board.record.owner.alive)
    assert not (run_dir / "boards" / board.serial_number).exists()


def test_lease_of_a_process_that_has_ended_is_refused(run_dir: Path) -> None:
    holder = process.spawn(["true"])
    holder.wait()
    process.end(holder)
    with pytest.raises(UsageError, match=f"process {holder.pid} does not run"):
        plug_in(find_board("host"), lease_pid=holder.pid)
    assert run_dir.is_dir()


def test_unplugging_during_a_flash_leaves_nothing(
    board: PluggedBoard, firmware: Path, tmp_path: Path
) -> None:
    big = tmp_path / "big.elf"
    big.write_bytes(firmware.read_bytes() + bytes(64 << 20))
    caught: list[HilError] = []

    def flash() -> None:
        try:
            board.flash(big)
        except HilError as error:
            caught.append(error)

    flashing = threading.Thread(target=flash)
    flashing.start()
    pause(0.02)
    board.unplug()
    flashing.join(30)
    assert not flashing.is_alive()
    assert all(isinstance(error, DeviceError) for error in caught)
    assert plugged_boards() == ()


def test_two_boards_of_a_kind_keep_apart(board: PluggedBoard, firmware: Path) -> None:
    other = plug_in(find_board("host"), lease_pid=os.getpid())
    assert other.serial_number == "HILHOST0002"
    with open_port(board) as first, open_port(other) as second:
        other.flash(firmware)
        assert second.read(5) == b"boot\n"
        assert not readable(first.fileno(), 0.1)
    board.unplug()
    assert plugged_boards() == (other,)


def test_number_in_use_is_refused_and_free_again_later(board: PluggedBoard) -> None:
    with pytest.raises(UsageError, match="'HILHOST0001' is already plugged in"):
        plug_in(find_board("host"), serial_number=board.serial_number)
    board.unplug()
    board.unplug()
    plug_in(find_board("host"), serial_number=board.serial_number, lease_pid=os.getpid())


@pytest.mark.usefixtures("run_dir")
def test_owner_that_is_slow_to_start_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the second after which a starter believes a child that ended and said nothing.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time\nfork = os.fork\n"
        "def slow():\n    pid = fork()\n    pid or time.sleep(1.5)\n    return pid\n"
        "os.fork = slow\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    plug_in(find_board("host"), lease_pid=os.getpid()).unplug()


def test_hardware_cannot_be_emulated(run_dir: Path) -> None:
    text = (paths.boards_dir() / "host.toml").read_text()
    (run_dir / "real.toml").write_text(
        text.replace('"host"', '"real"', 1).replace('lane = "host"', 'lane = "hardware"')
    )
    with pytest.raises(UsageError, match="'real' is real hardware"):
        plug_in(find_board("real", run_dir))


def discovered(run_dir: Path) -> list[dict[str, object]]:
    done = process.run(
        [sys.executable, "-I", "-S", "-E", str(TOOLS / "discovery.py")],
        timeout_s=20,
        stdin=b'HELLO 1 "test"\nSTART\nLIST\nQUIT\n',
        env={"HIL_RUN_DIR": str(run_dir)},
    )
    ports = json.loads(done.stdout.splitlines()[2])["ports"]
    assert isinstance(ports, list)
    return ports


def test_discovery_shows_the_board_as_arduino_cli_wants_it(
    board: PluggedBoard, run_dir: Path
) -> None:
    assert discovered(run_dir) == [
        {
            "address": board.address,
            "label": f"{board.address} (HILHOST0001)",
            "protocol": "serial",
            "protocolLabel": "Serial Port (virtual board)",
            "hardwareId": "HILHOST0001",
            "properties": {
                "vid": board.record.vid,
                "pid": board.record.pid,
                "serialNumber": "HILHOST0001",
            },
        }
    ]


def test_discovery_tells_of_coming_and_going(run_dir: Path) -> None:
    watching = process.spawn(
        [sys.executable, "-I", "-S", "-E", str(TOOLS / "discovery.py")],
        stdin=process.PIPE,
        env={"HIL_RUN_DIR": str(run_dir)},
    )
    try:
        assert watching.stdin is not None
        assert watching.stdout is not None
        watching.stdin.write(b'HELLO 1 "test"\nSTART_SYNC\n')
        events = (json.loads(line) for line in watching.stdout)
        assert [next(events)["eventType"] for _ in range(2)] == ["hello", "start_sync"]
        board = plug_in(find_board("host"), lease_pid=os.getpid())
        added = next(events)
        assert (added["eventType"], added["port"]["address"]) == ("add", board.address)
        board.unplug()
        gone = next(events)
        assert gone == {
            "eventType": "remove",
            "port": {"address": board.address, "protocol": "serial"},
        }
    finally:
        process.end(watching)


def upload(run_dir: Path, *arguments: str) -> process.Completed:
    return process.run(
        [sys.executable, "-I", "-S", "-E", str(TOOLS / "upload.py"), *arguments],
        timeout_s=60,
        env={"HIL_RUN_DIR": str(run_dir)},
    )


def test_upload_tool_flashes(board: PluggedBoard, firmware: Path, run_dir: Path) -> None:
    for place in (
        ["--address", board.address, "--serial", board.serial_number],
        ["--address", board.address, "--serial", "{upload.port.properties.serialNumber}"],
        ["--address", os.path.realpath(board.address)],
        ["--serial", board.serial_number],
    ):
        done = upload(run_dir, *place, "--elf", str(firmware))
        assert done.ok, done.stderr
        assert done.stdout == f"flashed {firmware.stat().st_size} bytes to HILHOST0001\n"
    assert board.status().boots == 4
    assert not (TOOLS / "__pycache__").exists()


def test_upload_tool_says_why_not(board: PluggedBoard, firmware: Path, run_dir: Path) -> None:
    elf = ["--elf", str(firmware)]
    absent = upload(run_dir, "--address", "/dev/ttyACM9", *elf)
    assert "no virtual board is plugged in at '/dev/ttyACM9'" in absent.stderr
    assert "plugged in now: HILHOST0001" in absent.stderr
    other = upload(run_dir, "--address", board.address, "--serial", "HILHOST0009", *elf)
    assert "is board 'HILHOST0001' now, not 'HILHOST0009'" in other.stderr
    missing = upload(run_dir, "--address", board.address, "--elf", "/absent.elf")
    assert "'/absent.elf' cannot be read: No such file" in missing.stderr
    for done in (absent, other, missing):
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1


def emulate(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    options = parser.parse_args(["emulate", *arguments])
    code = options.func(options)
    assert isinstance(code, int)
    return code


def test_command_plugs_in_lists_and_unplugs(
    run_dir: Path, firmware: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate("--list") == 0
    assert capsys.readouterr().out == "no virtual board is plugged in\n"
    assert emulate("host", "--lease-pid", str(os.getpid())) == 0
    address = run_dir / "boards" / "HILHOST0001" / "tty"
    assert capsys.readouterr().out == f"plugged in HILHOST0001 (hil:virtual:host) at {address}\n"
    assert emulate("host", "--serial-number", "SECOND", "--json") == 0
    assert json.loads(capsys.readouterr().out)["serial_number"] == "SECOND"
    assert emulate("--list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["serial_number"] for each in listed] == ["HILHOST0001", "SECOND"]
    find_plugged("SECOND").flash(firmware)
    assert emulate("--reset", "SECOND") == 0
    capsys.readouterr()
    assert emulate("--status", "SECOND", "--json") == 0
    assert json.loads(capsys.readouterr().out)["boots"] == 2
    assert emulate("--status", "SECOND") == 0
    assert "state: running" in capsys.readouterr().out
    assert emulate("--unplug", "SECOND") == 0
    assert emulate("--all") == 0
    assert capsys.readouterr().out == "unplugged SECOND\nunplugged HILHOST0001\n"
    assert plugged_boards() == ()


def test_command_refuses_what_makes_no_sense(run_dir: Path) -> None:
    with pytest.raises(UsageError, match="no board was named"):
        emulate()
    with pytest.raises(UsageError, match="is given together with"):
        emulate("host", "--list")
    with pytest.raises(DeviceError, match="no board 'NOPE' is plugged in"):
        emulate("--unplug", "NOPE")
    assert run_dir.is_dir()


def test_board_in_the_foreground_goes_with_ctrl_c(run_dir: Path) -> None:
    script = (
        "import sys, argparse; from harness.emulator import command;"
        "p = argparse.ArgumentParser(); command.add_parser(p.add_subparsers());"
        "o = p.parse_args(['emulate', 'host', '--foreground']); sys.exit(o.func(o))"
    )
    child = process.spawn([sys.executable, "-c", script], cwd=ROOT)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().startswith(b"plugged in HILHOST0001")
        assert len(plugged_boards()) == 1
        os.kill(child.pid, signal.SIGINT)
        assert child.wait(timeout=10) == 0
        assert not (run_dir / "boards" / "HILHOST0001").exists()
    finally:
        process.end(child)
