"""A board behind a Linux side: what is on it is asked of it, and nothing else is believed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli
from harness.arduino.footprint import Footprint
from harness.arduino.port import BoardAbsent, Port
from harness.backdoor import adb_errors
from harness.backdoor.back_door import BackDoor, LinuxState
from harness.backdoor.openocd import OpenOcdFailed
from harness.boards.board import find_board
from harness.desk import remote_station
from harness.desk.remote_station import SERIAL_NUMBER, RemoteStation
from harness.errors import BenchError, DeviceError, ToolError
from harness.serial.session import Session

PORT = Port("/dev/ttyACM0", "0x2341", "0x0078", "SN1", "p")
OLD, NEW = "0" * 16, "f" * 16
END, LAST = 0x7F0, b"the end of it"


def firmware(nonce: str = NEW, address: int | None = 0x400) -> Firmware:
    return Firmware(
        sketch="echo",
        board="unoq",
        core_version="0.90.0",
        key=nonce,
        nonce=nonce,
        folder=Path("/f"),
        elf=Path("/f/echo.ino.elf"),
        footprint=Footprint(1, 1, 1, 1),
        command=(),
        library=None,
        cached=False,
        nonce_address=address,
    )


@dataclass
class World:
    """What stands behind the back door, the upload tool and the port, and what was done to them."""

    nonce: str = OLD
    log: list[str] = field(default_factory=list)
    broken: list[Exception] = field(default_factory=list)
    """Raised by the next uploads, one each, before anything is written."""

    upload_ends_port: bool = False
    """The port goes away with the next upload."""

    lies: bool = False
    read_fails: int = 0
    ended: bool = False
    given_back: bool = False
    marks: list[str] = field(default_factory=list)
    away: list[Exception] = field(default_factory=list)
    """Raised by the next looks at the Linux side, one each."""

    routers: list[str] = field(default_factory=lambda: ["active"])
    """systemd's word for the router at each look; the last one stays."""

    booting: bool = True
    last: bytes = LAST
    """What stands at the end of the image in flash."""

    # The back door.
    def check(self) -> None:
        self.log.append("check")
        if self.away:
            raise self.away.pop(0)

    def router(self) -> str:
        return self.routers.pop(0) if len(self.routers) > 1 else self.routers[0]

    def linux_state(self) -> LinuxState:
        system = "starting" if self.booting else "running"
        return LinuxState(1.0, system, self.routers[0] == "active", self.routers[0])

    def read_memory(self, address: int, nbytes: int) -> bytes:
        self.log.append(f"read {address:#x} {nbytes}")
        if self.read_fails:
            self.read_fails -= 1
            raise OpenOcdFailed("cannot be read", remedy="none")
        if address == END:
            return self.last
        return self.nonce.encode()[:nbytes]

    def read_and_reset(self, address: int, nbytes: int) -> bytes:
        found = self.read_memory(address, nbytes)
        self.reset()
        return found

    def reset(self) -> None:
        self.log.append("reset")

    # The session.
    def skip_received(self) -> None:
        self.log.append("skip")

    def close(self) -> None:
        self.log.append("close")

    def mark(self, kind: str, **facts: object) -> None:
        self.marks.append(kind)
        assert kind != "call" or set(facts) == {"argv", "firmware", "failed"}

    # The upload tool.
    def upload(self, wanted: Firmware, properties: dict[str, str]) -> None:
        self.log.append(f"upload {properties[SERIAL_NUMBER]}")
        self.ended = self.ended or self.upload_ends_port
        error = self.broken.pop(0) if self.broken else None
        if not self.lies and not (isinstance(error, ToolError) and "early" in error.message):
            self.nonce = wanted.nonce
        if error is not None:
            raise error

    def finish(self, deadline: object) -> None:
        del deadline


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()

    def upload(_cli: object, _board: object, wanted: Firmware, **more: object) -> World:
        assert more["address"] == PORT.address
        made.upload(wanted, cast(dict[str, str], more["properties"]))
        return made

    monkeypatch.setattr(remote_station, "upload", upload)
    monkeypatch.setattr(remote_station, "last_bytes", lambda path, nbytes: (END, LAST))  # noqa: ARG005
    monkeypatch.setattr(remote_station, "LOOK_S", 0.001)
    return made


def station(
    world: World,
    *,
    find: Callable[[], Port] = lambda: PORT,
    power: Callable[[], None] | None = None,
) -> RemoteStation:
    owned = ExitStack()
    owned.callback(lambda: setattr(world, "given_back", True))
    return RemoteStation(
        find_board("unoq"),
        PORT,
        cast(Session, world),
        lambda _: None,
        back_door=cast(BackDoor, world),
        find=find,
        reopen=lambda _: setattr(world, "ended", False),
        power=power,
        given_back=owned,
    )


CLI = ArduinoCli(Path("/bin/arduino-cli"), Path("/config"), Path("/home"))


def test_a_board_that_has_this_build_is_reset_and_not_written(world: World) -> None:
    world.nonce = NEW
    made = station(world)
    made.flash(CLI, firmware())
    assert world.log == ["check", "read 0x400 16", "skip", "reset"]
    assert made.running is not None
    assert (made.retries, made.remarks) == ([], [])


def test_another_build_is_written_and_asked_for(world: World) -> None:
    made = station(world)
    made.flash(CLI, firmware())
    assert world.log == [
        "check",
        "read 0x400 16",
        "upload SN1",
        "skip",
        "read 0x400 16",
        "reset",
    ]
    assert made.running is made.flashed


def test_a_board_taken_over_is_written_whatever_it_says(world: World) -> None:
    world.nonce = NEW
    made = station(world)
    made.distrusted = True
    made.flash(CLI, firmware())
    assert "upload SN1" in world.log
    world.log.clear()
    made.flash(CLI, firmware())
    assert "upload SN1" not in world.log


def test_a_failure_that_was_none_is_remarked_and_passes(world: World) -> None:
    world.broken = [ToolError("verify failed in bank", remedy="none")]
    made = station(world)
    made.flash(CLI, firmware())
    (remark,) = made.remarks
    assert remark == "verify failed in bank; but the board has the new firmware, to its end"
    assert made.retries == []


def test_a_firmware_that_lacks_its_end_is_not_believed_whatever_its_nonce(world: World) -> None:
    world.broken = [ToolError("cut off", remedy="none"), ToolError("cut off again", remedy="none")]
    world.last = b"\xff" * len(LAST)
    made = station(world)
    with pytest.raises(ToolError, match=r"^cut off$"):
        made.flash(CLI, firmware())
    assert world.nonce == NEW
    assert world.log.count("upload SN1") == 2
    world.log.clear()
    # Nor by what comes after it, although nobody says any more that it is cut off.
    world.last = LAST
    made.flash(CLI, firmware())
    assert "upload SN1" in world.log


def test_a_success_that_was_none_is_tried_again_and_then_a_fault(world: World) -> None:
    world.lies = True
    made = station(world)
    with pytest.raises(DeviceError, match="reported success, but the board does not run") as caught:
        made.flash(CLI, firmware())
    assert made.running is None
    assert len(made.retries) == 1
    evidence = "\n".join(caught.value.evidence)
    assert f"nonce on the board: {OLD!r}" in evidence
    assert "uploading again" in evidence
    assert "switching its power: not set up for this board" in evidence
    assert world.log.count("upload SN1") == 2


def test_a_fault_that_goes_away_is_counted(world: World) -> None:
    world.broken = [ToolError("early: adb hung up", remedy="none")]
    made = station(world)
    made.flash(CLI, firmware())
    assert made.running is not None
    (retry,) = made.retries
    assert retry.startswith("flashing 'echo': early: adb hung up; reset through the board's")
    assert retry.endswith("; uploading again: the board came back")


def test_power_is_the_last_resort(world: World) -> None:
    world.lies = True
    switched: list[bool] = []

    def switch() -> None:
        switched.append(True)
        world.nonce = NEW

    made = station(world, power=switch)
    made.flash(CLI, firmware())
    assert switched == [True]
    (retry,) = made.retries
    assert retry.endswith("; switching its power: the board came back")


def test_a_board_whose_power_was_switched_is_waited_for_and_written(world: World) -> None:
    world.broken = [ToolError("early: it hangs", remedy="none") for _ in range(2)]

    def switch() -> None:
        world.away = [
            adb_errors.no_device("SN1"), adb_errors.not_found("SN1", ()), adb_errors.offline("SN1")
        ]  # fmt: skip
        world.routers = ["inactive", "active"]

    made = station(world, power=switch)
    made.flash(CLI, firmware())
    assert world.nonce == NEW
    assert world.away == []
    assert world.log.count("upload SN1") == 3
    assert made.remarks[0].startswith("the Linux side of board 'SN1' was still booting: waited ")


def test_a_board_that_is_gone_is_not_waited_for_twice(world: World) -> None:
    looks: list[bool] = []

    def find() -> Port:
        looks.append(True)
        raise BoardAbsent("board 'SN1' vanished", remedy="none")

    world.broken = [ToolError("early: gone", remedy="none")]
    made = station(world, find=find)
    world.upload_ends_port = True
    with pytest.raises(BoardAbsent, match="vanished"):
        made.flash(CLI, firmware())
    assert looks == [True]
    assert made.retries == []


def test_a_linux_side_that_boots_is_waited_for(world: World) -> None:
    world.away = [adb_errors.offline("SN1")]
    world.routers = ["inactive", "inactive", "activating", "active"]
    made = station(world)
    made.flash(CLI, firmware())
    (remark,) = made.remarks
    assert remark.startswith("the Linux side of board 'SN1' was still booting: waited ")
    assert made.running is not None


def test_a_router_that_never_runs_is_remarked_and_not_waited_for(world: World) -> None:
    world.routers, world.booting = ["failed"], False
    made = station(world)
    made.flash(CLI, firmware())
    (remark,) = made.remarks
    assert remark.startswith("the router on the Linux side of board 'SN1' is 'failed'")


def test_a_linux_side_that_does_not_come_up_is_a_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_station, "BOOT_S", 0.05)
    world.away = [adb_errors.offline("SN1") for _ in range(1000)]
    with pytest.raises(adb_errors.AdbOffline):
        station(world).flash(CLI, firmware())
    assert 0 < len(world.away) < 1000


def test_what_adb_refuses_is_said_at_once(world: World) -> None:
    world.away = [adb_errors.unauthorized("SN1")]
    with pytest.raises(adb_errors.AdbUnauthorized):
        station(world).flash(CLI, firmware())
    assert world.log == ["check"]


def test_a_chip_that_cannot_be_read_is_written(world: World) -> None:
    world.read_fails = 1
    made = station(world)
    made.flash(CLI, firmware())
    assert made.running is not None
    assert "upload SN1" in world.log


def test_a_port_that_came_back_elsewhere_is_followed(world: World) -> None:
    world.ended = True
    elsewhere = Port("/dev/ttyACM0", "0x2341", "0x0078", "SN1", "p")
    made = station(world, find=lambda: elsewhere)
    made.flash(CLI, firmware())
    (remark,) = made.remarks
    assert "vanished; the board came back at" in remark
    assert not world.ended


def test_a_firmware_without_a_nonce_is_a_fault_of_the_bench(world: World) -> None:
    with pytest.raises(BenchError, match="has no build nonce"):
        station(world).flash(CLI, firmware(address=None))


def test_what_was_done_to_the_board_is_in_its_transcript(world: World) -> None:
    made = station(world)
    made.flash(CLI, firmware())
    made.reset()
    assert world.marks == ["call", "reset"]


def test_closing_gives_everything_back(world: World) -> None:
    station(world).close()
    assert world.log == ["close"]
    assert world.given_back
