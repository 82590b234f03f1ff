from __future__ import annotations

import argparse
import json
import os
import pty
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from harness.boards.board import Lane, load_boards
from harness.errors import BenchError, CapabilityMissing, DeviceError, ToolError
from harness.machine import command as doctor_command
from harness.machine import doctor
from harness.machine import probes as doctor_machine
from harness.machine.config import Config
from harness.machine.doctor import ALL, Check, Examination, Need, checked, examine, needed, why_not


def check(name: str, lanes: tuple[Lane, ...] = ALL, *, required: bool = True, ok: bool) -> Check:
    if ok:
        return Check(name, lanes, required, found="here")
    return Check(name, lanes, required, problem=f"no {name}", remedy=f"install {name}")


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    doctor_command.add_parser(parser.add_subparsers())
    return parser.parse_args(["doctor", *arguments])


def test_a_lane_is_blocked_only_by_what_it_requires() -> None:
    examination = Examination(
        (
            check("a", (Lane.EMULATED,), ok=False),
            check("b", (Lane.HOST,), required=False, ok=False),
            check("c", ok=True),
        )
    )
    assert examination.can_run(Lane.HOST)
    assert [each.name for each in examination.blocking(Lane.EMULATED)] == ["a"]


def test_an_error_becomes_problem_evidence_and_remedy() -> None:
    def look() -> str:
        raise ToolError("it is broken", remedy="mend it", evidence=("it says so",))

    made = checked(Need("it", ALL, look))
    assert (made.problem, made.remedy, made.found) == ("it is broken; it says so", "mend it", None)


def test_an_emulated_lane_needs_a_checkout_only_when_one_is_configured() -> None:
    boards = load_boards()
    without = {need.name: need for need in needed(boards, Config())}
    assert "ExecuTorch checkout" not in without
    assert not without["ExecuTorch checkout (adds the real library)"].required
    named = Config(executorch=Path("/nowhere"), executorch_source="--executorch")
    with_one = {need.name: need for need in needed(boards, named)}
    assert with_one["ExecuTorch checkout"].required
    assert Lane.EMULATED in with_one["ExecuTorch checkout"].lanes


def test_a_configured_checkout_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = Config(executorch=tmp_path / "gone", executorch_source="--executorch")
    made = {each.name: each for each in examine((Lane.EMULATED,), config=config).checks}
    problem = made["ExecuTorch checkout"].problem
    assert problem is not None
    assert str(tmp_path / "gone") in problem


def test_every_problem_on_a_bare_machine_has_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    examination = examine(config=Config())
    missing = {each.name for each in examination.checks if not each.ok}
    assert {"arduino-cli", "arduino-ctags", "g++", "arm-none-eabi-g++", "picolibc"} <= missing
    assert {"libstdc++ for picolibc", "qemu-system-arm", "QEMU machines"} <= missing
    assert all(each.remedy for each in examination.checks if not each.ok)
    assert not any(examination.can_run(lane) for lane in Lane)


@pytest.fixture
def one_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An examination in which only the emulated lane lacks something."""

    def look(lanes: tuple[Lane, ...] = ALL, *, config: Config | None = None) -> Examination:
        del config
        made = (check("gcc", (Lane.EMULATED,), ok=False), check("python", ok=True))
        return Examination(tuple(e for e in made if any(lane in e.lanes for lane in lanes)))

    monkeypatch.setattr(doctor, "examine", look)
    monkeypatch.setattr(doctor_command, "examine", look)


@pytest.mark.usefixtures("one_missing")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--lane", "host"), 0),
        (("--lane", "emulated"), 1),
        (("--lane", "host", "--lane", "emulated"), 1),
    ],
)
def test_only_a_lane_that_was_asked_for_fails(arguments: tuple[str, ...], code: int) -> None:
    assert doctor_command.run(parse(*arguments)) == code


@pytest.mark.usefixtures("one_missing")
def test_text_gives_the_fix_and_a_line_per_lane(capsys: pytest.CaptureFixture[str]) -> None:
    doctor_command.run(parse())
    lines = capsys.readouterr().out.splitlines()
    assert "MISSING  gcc (emulated): no gcc" in lines
    assert "         fix: install gcc" in lines
    assert lines[-3:] == [
        "host: can run here",
        "emulated: cannot run here: gcc",
        "hardware: can run here",
    ]


@pytest.mark.usefixtures("one_missing")
def test_json_has_lanes_and_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor_command.run(parse("--lane", "emulated", "--json")) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["lanes"] == {"emulated": {"can_run": False, "blocked_by": ["gcc"]}}
    assert data["checks"][0] == {
        "name": "gcc",
        "lanes": ["emulated"],
        "required": True,
        "ok": False,
        "found": None,
        "problem": "no gcc",
        "remedy": "install gcc",
    }


@pytest.mark.usefixtures("one_missing")
def test_why_not_is_one_line() -> None:
    assert why_not(Lane.HOST) is None
    assert why_not(Lane.EMULATED) == "no gcc; install gcc"


def use_metadata(monkeypatch: pytest.MonkeyPatch, installed: str, pinned: str) -> None:
    def version(name: str) -> str:
        if name != "torch":
            raise metadata.PackageNotFoundError(name)
        return installed

    def requires(_: str) -> list[str]:
        return [f"torch=={pinned}", 'mypy>=1.13; extra == "dev"']

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(metadata, "requires", requires)


@pytest.mark.parametrize("installed", ["2.14.1", "2.14.1+cpu"])
def test_the_pinned_version_will_do(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    use_metadata(monkeypatch, installed, "2.14.1")
    assert doctor_machine.python_package("torch") == installed


def test_another_version_than_the_pinned_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    use_metadata(monkeypatch, "2.15.0", "2.14.1")
    with pytest.raises(CapabilityMissing, match=r"is 2\.15\.0, and 2\.14\.1 is pinned"):
        doctor_machine.python_package("torch")


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    use_metadata(monkeypatch, "2.14.1", "2.14.1")
    with pytest.raises(CapabilityMissing, match="'executorch' is not installed"):
        doctor_machine.python_package("executorch")


def test_a_cache_below_a_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BenchError, match="cannot write to") as raised:
        doctor_machine.cache_folder()
    assert "HIL_CACHE" in raised.value.remedy


def test_looking_at_the_cache_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "a" / "b"))
    assert doctor_machine.cache_folder() == str(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_little_space_is_said_in_gigabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor_machine, "FREE_BYTES", 10**18)
    with pytest.raises(BenchError, match="GB are free"):
        doctor_machine.free_disk()


def test_a_run_folder_too_long_for_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_RUN_DIR", "/tmp/" + "x" * 100)
    with pytest.raises(BenchError, match="107 is the most") as raised:
        doctor_machine.run_folder()
    assert "HIL_RUN_DIR" in raised.value.remedy


def test_no_pseudo_terminal_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pty, "openpty", fail)
    with pytest.raises(BenchError, match="cannot make a pseudo-terminal: No space left"):
        doctor_machine.pseudo_terminals()


def test_a_machine_that_qemu_lacks_names_its_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine, "find", lambda _: None)
    monkeypatch.setattr(doctor_machine, "qemu_machines", lambda _: frozenset({"mps2-an505"}))
    boards = {"mps2-an505": "m33", "mps3-an547": "m55"}
    with pytest.raises(CapabilityMissing, match=r"no machine 'mps3-an547' \(board 'm55'\)"):
        doctor_machine.emulated_machines(boards)


def test_a_board_core_is_looked_for_in_the_benchs_own_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    with pytest.raises(CapabilityMissing, match="'arduino:zephyr' is not installed"):
        doctor_machine.board_core("arduino:zephyr")
    home = tmp_path / "arduino/cores/arduino-zephyr-0.90.0"
    platform = home / "data/packages/arduino/hardware/zephyr/0.90.0"
    platform.mkdir(parents=True)
    (platform / "boards.txt").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CapabilityMissing, match="came without adb") as caught:
        doctor_machine.board_core("arduino:zephyr")
    assert "name it in the configuration" in caught.value.remedy
    adb = home / "data/packages/arduino/tools/adb/32.0.0/adb"
    adb.parent.mkdir(parents=True)
    adb.touch()
    assert doctor_machine.board_core("arduino:zephyr") == "0.90.0"


def test_no_serial_port_is_told_from_one_that_may_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeviceError, match="no serial port"):
        doctor_machine.serial_ports(tmp_path)
    (tmp_path / "ttyACM0").touch()
    assert doctor_machine.serial_ports(tmp_path) == str(tmp_path / "ttyACM0")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DeviceError, match="may not be opened") as raised:
        doctor_machine.serial_ports(tmp_path)
    assert "dialout" in raised.value.remedy
