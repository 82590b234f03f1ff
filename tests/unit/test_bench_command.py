"""``hil bench``: what it lists, and lifting a quarantine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from harness.bench import command
from harness.bench.owner import claim_board, lock_path
from harness.bench.quarantine import read_state, record_outcome
from harness.errors import UsageError
from tests.unit.fake_usb import add_device, add_unoq

INVENTORY = """\
[[board]]
serial_number = "2629845674"
name = "unoq"
tags = ["desk"]
note = "left of the \\u001b window"

[[board]]
serial_number = "1234987650"
name = "unoq"
quarantined = "loose socket"

[[board]]
serial_number = "5550001112"
name = "unoq"

[[board]]
serial_number = "7770001112"
name = "unoq"
url = "rfc2217://lab2:4000"

[[board]]
serial_number = "8880001112"
name = "unoq"
"""


@pytest.fixture(autouse=True)
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab of five boards; three are on USB, one of them without port, one of another kind."""
    for name, folder in (("CACHE", "cache"), ("RUN_DIR", "run"), ("LOCK_DIR", "locks")):
        monkeypatch.setenv(f"HIL_{name}", str(tmp_path / folder))
    sysfs = tmp_path / "sys"
    add_unoq(sysfs)
    add_device(sysfs, "1-2", "2341", "0078", serial_number="1234987650", interfaces=("ff",))
    add_device(sysfs, "1-3", "2341", "0043", serial_number="8880001112", tty="ttyACM9")
    monkeypatch.setattr(command, "SYSFS", sysfs)
    path = tmp_path / "bench.toml"
    path.write_text(INVENTORY, encoding="utf-8")
    return path


def hil(*words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["bench", *words])
    code: int = arguments.func(arguments)
    return code


def test_every_board_is_listed_with_what_keeps_it(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_outcome("5550001112", fault="port vanished", after_faults=3)
    with claim_board("2629845674", purpose="a run"):
        assert hil("--bench", str(bench)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2629845674       unoq     /dev/ttyACM0  [desk]"
    assert lines[1].startswith("    held by process ")
    assert lines[2] == r"    left of the \x1b window"
    assert lines[3] == "1234987650       unoq     on USB without a serial port"
    assert lines[4] == f"    quarantined in {bench}:7: loose socket"
    assert lines[5] == "5550001112       unoq     absent"
    assert lines[6] == "    1 of 3 faults in a row"
    assert lines[7] == "7770001112       unoq     elsewhere, at rfc2217://lab2:4000"
    assert lines[8].startswith(
        "8880001112       unoq     another kind of board: USB 1-3: 2341:0043"
    )
    assert len(lines) == 9


def test_the_list_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        record_outcome("2629845674", fault="port vanished", after_faults=3)
    # Beside the configuration: no need to name it.
    assert hil("--json") == 0
    boards = json.loads(capsys.readouterr().out)
    assert [each["serial_number"] for each in boards][:2] == ["2629845674", "1234987650"]
    first = boards[0]
    assert first["present"] is True
    assert first["address"] == "/dev/ttyACM0"
    assert first["held_by"] is None
    assert "3 runs in a row ended with a fault" in first["quarantined"]
    assert first["faults_in_a_row"] == 3
    assert boards[2] | {"present": False, "where": "absent", "quarantined": None} == boards[2]
    assert not list(lock_path("x").parent.glob("*"))


def test_a_quarantine_is_lifted(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        record_outcome("2629845674", fault="port vanished", after_faults=3)
    assert hil("release", "2629845674", "--bench", str(bench)) == 0
    said = capsys.readouterr().out
    assert said.startswith("board 2629845674 is released: quarantined since 2")
    assert said.endswith("3 faults in a row are forgotten\n")
    assert read_state("2629845674").reason is None
    assert hil("--bench", str(bench), "release", "2629845674") == 0
    assert "was not quarantined by the bench" in capsys.readouterr().out


def test_a_board_that_no_inventory_lists_is_released_too() -> None:
    record_outcome("4242", fault="x", after_faults=1)
    assert hil("release", "4242") == 0
    assert read_state("4242").reason is None


def test_what_the_inventory_says_is_lifted_there(bench: Path) -> None:
    with pytest.raises(UsageError, match=r"stays quarantined in .*bench.toml:7: loose") as at:
        hil("release", "1234987650")
    assert "take 'quarantined' out" in at.value.remedy
    assert str(bench) in at.value.message


def test_a_board_that_is_not_known_is_not_released() -> None:
    with pytest.raises(UsageError, match="knows no board '262984567'; did you mean '2629845674'"):
        hil("release", "262984567")


def test_a_bench_without_boards_says_how_to_list_some(
    bench: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write_text("")
    assert hil() == 0
    assert "lists no board; docs/bench-inventory.md" in capsys.readouterr().out
    bench.unlink()
    assert hil() == 0
    assert "no bench inventory" in capsys.readouterr().out
    bench.write_text(INVENTORY)
    monkeypatch.setattr(command, "SYSFS", bench.parent / "none")
    assert hil() == 0
    assert "not known: this machine lists no USB devices" in capsys.readouterr().out


def test_a_damaged_memory_is_said_beside_the_list(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bench.parent / "cache" / "bench"
    folder.mkdir(parents=True)
    (folder / "2629845674.json").write_text("{")
    assert hil() == 0
    both = capsys.readouterr()
    assert "is damaged" in both.err
    assert "/dev/ttyACM0" in both.out
