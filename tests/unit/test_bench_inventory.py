"""The bench inventory: what it says, and every mistake with its file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.bench.inventory import Inventory, load_inventory
from harness.boards.board import ResetMethod
from harness.errors import UsageError

FULL = """\
# the lab
wait_s = 1800

[quarantine]
after_faults = 5

[[board]]
serial_number = "2629845674"
name = "unoq"
port = "/dev/serial/by-id/usb-Arduino_UNO_Q-if00"
core_version = "0.90.0"
reset = ["openocd", "power"]
power_command = ["uhubctl", "-l", "1-1", "-p", "2", "-a", "cycle"]
tags = ["desk", "nightly"]
note = "left of the window"

[[board]]
serial_number = "1234987650"
name = "unoq"
url = "rfc2217://lab2:4000"
tags = ["nightly"]
quarantined = "its USB socket is loose"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bench.toml"


def read(path: Path, text: str) -> Inventory:
    path.write_text(text, encoding="utf-8")
    return load_inventory(path)


def complaint(path: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as at:
        read(path, text)
    return at.value


def test_everything_that_it_can_say(path: Path) -> None:
    inventory = read(path, FULL)
    assert inventory.after_faults == 5
    assert inventory.wait_s == 1800
    one, other = inventory.boards
    assert one.serial_number == "2629845674"
    assert one.kind == "unoq"
    assert one.port == "/dev/serial/by-id/usb-Arduino_UNO_Q-if00"
    assert one.core_version == "0.90.0"
    assert one.reset == (ResetMethod.OPENOCD, ResetMethod.POWER)
    assert one.power_command[0] == "uhubctl"
    assert one.tags == ("desk", "nightly")
    assert one.quarantined is None
    assert one.line == 7
    assert other.url == "rfc2217://lab2:4000"
    assert other.quarantined == "its USB socket is loose"
    assert other.line == 17
    assert inventory.entry("1234987650") == other
    assert inventory.entry("x") is None
    one.require_local()
    one.require_core("0.90.0")
    other.require_core("0.55.2")
    with pytest.raises(
        UsageError, match=r"is kept for core '0\.90\.0', and '0\.55\.2' was asked for"
    ):
        one.require_core("0.55.2")
    with pytest.raises(UsageError, match="'1234987650' is reached at 'rfc2217://lab2:4000'"):
        other.require_local()


def test_boards_are_selected_by_kind_and_tags_and_none_is_left_out(path: Path) -> None:
    inventory = read(path, FULL)
    assert inventory.of_kind("unoq") == inventory.boards
    assert inventory.of_kind("m33") == ()
    assert inventory.of_kind("unoq", tags=["nightly"]) == inventory.boards
    assert inventory.of_kind("unoq", tags=["nightly", "desk"]) == inventory.boards[:1]
    with pytest.raises(UsageError, match="no board of the bench has the tag 'nigthly'; did you"):
        inventory.of_kind("unoq", tags=["nigthly"])
    with pytest.raises(UsageError, match="has the tag 'x'") as at:
        Inventory().tagged(["x"])
    assert "bench.toml" in at.value.remedy


def test_the_users_own_may_be_absent_and_a_named_one_not(path: Path) -> None:
    # The unit tests' configuration is a file of the test's own folder: the inventory is beside it.
    assert load_inventory() == Inventory()
    assert load_inventory().wait_s == 600
    with pytest.raises(UsageError, match="there is no bench inventory"):
        load_inventory(path)
    path.write_text(FULL, encoding="utf-8")
    assert load_inventory().path == path


def test_an_inventory_may_be_empty(path: Path) -> None:
    assert read(path, "") == Inventory(path=path)


BOARD = '[[board]]\nserial_number = "A1"\nname = "unoq"\n'


@pytest.mark.parametrize(
    ("text", "line", "said", "remedy"),
    [
        ("bord = 1\n", 1, "'bord' is not known; did you mean 'board'?", "correct or remove"),
        (BOARD + 'tag = ["x"]\n', 4, "'board.tag' is not known; did you mean 'tags'?", ""),
        ('[[board]]\nserial_nubmer = "A1"\nname = "unoq"\n', 2, "mean 'serial_number'", ""),
        (
            '\n[[board]]\nname = "unoq"\n' + BOARD,
            2,
            "'board.serial_number' is missing",
            "bench-inv",
        ),
        (BOARD + '[[board]]\nserial_number = "A2"\n', 4, "'board.name' is missing", "bench-inv"),
        (BOARD.replace('"A1"', '"A 1"'), 2, "'board.serial_number' is 'A 1'", "arduino-cli"),
        (BOARD.replace('"A1"', "2629845674"), 2, "is 2629845674", "give a string"),
        (BOARD.replace('"A1"', '""'), 2, "is ''", "give a string"),
        (BOARD + BOARD, 5, "is 'A1', as in line 1", "remove one of the two"),
        (BOARD.replace("unoq", "unuq"), 3, "which no board is called; did you mean 'unoq'?", "m33"),
        (BOARD.replace("unoq", "../x"), 3, "'board.name' is '../x'", "give one of"),
        (BOARD + 'core_version = "0.90"\n', 4, "is '0.90'; did you mean '0.90.0'?", "0.55.2"),
        (BOARD + 'reset = ["opnocd"]\n', 4, "did you mean 'openocd'?", "give one of openocd"),
        (BOARD + 'reset = ["power"]\n', 4, "'board.reset' has 'power'", "add power_command"),
        (BOARD + 'power_command = "reboot"\n', 4, "is 'reboot'", "list of strings"),
        (BOARD + 'power_command = [""]\n', 4, "is ['']", "not empty"),
        (BOARD + 'tags = ["x", " "]\n', 4, "is ['x', ' ']", "not empty"),
        (BOARD + 'tags = ["x", "x"]\n', 4, "is ['x', 'x']", "once"),
        (BOARD + "quarantined = true\n", 4, "is True", "give a string"),
        (BOARD + 'quarantined = ""\n', 4, "is ''", "give a string"),
        (BOARD + 'url = "lab2"\n', 4, "is 'lab2'", "SCHEME"),
        (BOARD + 'port = "x"\nurl = "socket://a:1"\n', 5, "given beside 'port'", "keep the one"),
        ('wait_s = "10"\n', 1, "is '10'", "whole number"),
        ("wait_s = -1\n", 1, "is -1", "from 0"),
        ("wait = 1\n", 1, "did you mean 'wait_s'?", ""),
        ("[quarantine]\nafter_faults = 0\n", 2, "is 0", "from 1"),
        ("[quarantine]\nafter_fault = 2\n", 2, "did you mean 'after_faults'?", ""),
        ("[board]\n", 1, "'board' is not a list of tables", "[[board]]"),
    ],
)
def test_a_mistake_is_shown_with_its_place(
    path: Path, text: str, line: int, said: str, remedy: str
) -> None:
    error = complaint(path, text)
    assert error.message.startswith(f"{path}:{line}: ")
    assert said in error.message
    assert remedy in error.remedy


def test_what_is_no_toml_and_no_text(path: Path) -> None:
    assert "this is not TOML" in complaint(path, "[[board]\n").message
    assert "this is not TOML" in complaint(path, "x = " + "[" * 100_000).message
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read the bench inventory"):
        load_inventory(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match="cannot read the bench inventory"):
        load_inventory(path)


def test_boards_written_inline_are_boards(path: Path) -> None:
    inventory = read(path, 'board = [{ serial_number = "A1", name = "unoq" }]\n')
    assert [each.serial_number for each in inventory.boards] == ["A1"]
