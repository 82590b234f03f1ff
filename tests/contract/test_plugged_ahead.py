"""A board that is plugged in while its firmware is compiled: used, given back, its fault told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest

from harness.arduino.cli import ArduinoCli
from harness.boards.board import find_board
from harness.desk import desk as desk_module
from harness.desk.desk import Desk, Wanted
from harness.emulator.client import plug_in, plugged_boards
from harness.errors import BenchError

NO_CLI = ArduinoCli(Path("arduino-cli"), Path("config"), Path("home"))
"""A virtual board is found without arduino-cli."""


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk with a runtime folder of its own, where every board is gone in the end."""
    with TemporaryDirectory(prefix="hil") as folder:
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        made = Desk(None)
        yield made
        made.close()
        assert plugged_boards() == ()


@pytest.fixture
def wanted() -> Wanted:
    board = find_board("host")
    return Wanted(board, board.default_core_version)


def test_the_board_that_was_expected_is_the_one_that_is_used(desk: Desk, wanted: Wanted) -> None:
    desk.expect(wanted)
    desk.expect(wanted)
    station = desk.station(wanted, NO_CLI)
    (board,) = plugged_boards()
    assert station.port.serial_number == board.serial_number
    desk.expect(wanted)
    assert desk.station(wanted, NO_CLI) is station
    assert plugged_boards() == (board,)


def test_one_that_nobody_came_for_goes_away(desk: Desk, wanted: Wanted) -> None:
    desk.expect(wanted)
    desk.close()
    assert plugged_boards() == ()


def test_what_went_wrong_is_raised_where_the_board_is_asked_for(
    desk: Desk, wanted: Wanted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise BenchError("the owner did not come up", remedy="look")

    monkeypatch.setattr(desk_module, "plug_in", fail)
    desk.expect(wanted)
    with pytest.raises(BenchError, match="did not come up"):
        desk.station(wanted, NO_CLI)
    # And not raised by who only gives back what was never used.
    desk.expect(wanted)
    desk.close()


def test_a_board_that_was_chosen_is_not_plugged_in(desk: Desk, wanted: Wanted) -> None:
    there = plug_in(wanted.board)
    try:
        chosen = replace(wanted, serial_number=there.serial_number)
        desk.expect(chosen)
        desk.expect(replace(wanted, address=there.address))
        assert desk.station(chosen, NO_CLI).port.serial_number == there.serial_number
        assert plugged_boards() == (there,)
        desk.close()
    finally:
        there.unplug()


def test_a_real_boards_place_stays_empty(desk: Desk) -> None:
    board = find_board("unoq")
    for virtual in (False, True):
        desk.expect(Wanted(board, board.default_core_version, virtual=virtual))
    assert plugged_boards() == ()
    desk.close()
    assert plugged_boards() == ()
