"""``hil autopsy``: which board is meant, and what is said where there is none."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from harness.autopsy import command
from harness.backdoor.adb_errors import AdbMissing, AdbNoDevice
from harness.emulator.client import PluggedBoard
from harness.errors import CapabilityMissing, UsageError


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["autopsy", *words])


class Record:
    """As much of a plugged board's record as is looked at."""

    def __init__(self, board: str, serial_number: str, address: str) -> None:
        self.board = board
        self.serial_number = serial_number
        self.address = address


def plugged(*records: Record) -> tuple[PluggedBoard, ...]:
    return tuple(PluggedBoard(each) for each in records)  # type: ignore[arg-type]  # duck-typed


M33 = Record("m33", "HILM330001", "/run/hil/boards/HILM330001/tty")
OTHER = Record("m33", "HILM330002", "/run/hil/boards/HILM330002/tty")
UNOQ = Record("unoq", "HILUNOQ0001", "/run/hil/boards/HILUNOQ0001/tty")
ALL = plugged(M33, OTHER, UNOQ)


@pytest.mark.parametrize(
    ("words", "serial_number"),
    [
        (("--serial-number", "HILM330002"), "HILM330002"),
        (("--port", UNOQ.address), "HILUNOQ0001"),
        (("--board", "unoq"), "HILUNOQ0001"),
        (("--board", "m7"), None),
        # A real board's number: none of the virtual ones.
        (("--serial-number", "2629142341"), None),
    ],
)
def test_the_board_that_is_meant(words: tuple[str, ...], serial_number: str | None) -> None:
    found = command.find_virtual(ALL, parse(*words))
    assert (found.serial_number if found else None) == serial_number


def test_the_only_one_needs_no_name() -> None:
    found = command.find_virtual(plugged(M33), parse())
    assert found is not None
    assert found.serial_number == "HILM330001"
    assert command.find_virtual((), parse()) is None


def test_several_are_not_guessed_among() -> None:
    with pytest.raises(UsageError, match="2 virtual boards are plugged in and none was") as caught:
        command.find_virtual(ALL, parse("--board", "m33"))
    assert "HILM330001 at /run/hil/boards/HILM330001/tty" in caught.value.remedy


def test_a_port_that_no_virtual_board_has_is_told() -> None:
    with pytest.raises(UsageError, match="no virtual board has port '/dev/ttyACM0'") as caught:
        command.find_virtual(ALL, parse("--port", "/dev/ttyACM0"))
    assert "--serial-number" in caught.value.remedy


def test_an_elf_that_is_not_there_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no ELF"):
        command.run(parse("--elf", str(tmp_path / "absent.elf")))


def test_a_board_that_is_not_plugged_in_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_RUN_DIR", str(tmp_path))
    with pytest.raises(UsageError, match="no board 'm33' is plugged in") as caught:
        command.run(parse("--board", "m33"))
    assert caught.value.remedy == "plug one in with 'hil emulate m33'"


def test_a_machine_without_adb_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_RUN_DIR", str(tmp_path))

    def no_core(*_: object, **__: object) -> None:
        raise CapabilityMissing("core is not installed", remedy="hil core install 0.90.0")

    monkeypatch.setattr(command, "open_core", no_core)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AdbMissing, match="'adb' is not on PATH, and core is not installed"):
        command.run(parse())
    # adb alone will do.
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\necho List of devices attached\n")
    program.chmod(0o755)
    with pytest.raises(AdbNoDevice, match="adb sees no board"):
        command.run(parse())
