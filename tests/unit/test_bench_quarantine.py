"""Boards out of use: by their entry, after faults in a row, and how they come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.bench.inventory import Inventory, load_inventory
from harness.bench.owner import BoardTaken
from harness.bench.quarantine import (
    BoardQuarantined,
    BoardState,
    counts_against_board,
    read_state,
    record_outcome,
    release,
    remembered_boards,
    require_not_quarantined,
)
from harness.errors import BenchError, DeviceError, DutFailure, HilError, ToolError

BOARD = "2629845674"


def count(folder: Path, *faults: str | None, after: int = 3) -> tuple[BoardState, list[str]]:
    """Record a run for each; gives the last state and everything that was said."""
    said: list[str] = []
    state = BoardState(BOARD)
    for fault in faults:
        state = record_outcome(
            BOARD, fault=fault, after_faults=after, progress=said.append, folder=folder
        )
    return state, said


def test_faults_in_a_row_quarantine_the_board(tmp_path: Path) -> None:
    state, said = count(tmp_path, "port vanished", "port vanished")
    assert state.reason is None
    assert said == []
    require_not_quarantined(BOARD, Inventory(), folder=tmp_path)
    state, said = count(tmp_path, "no banner")
    (line,) = said
    assert line == (
        "board '2629845674' is quarantined from now on: 3 runs in a row ended with a fault of the"
        " board, the last: no banner; 'hil bench release 2629845674' lifts it"
    )
    with pytest.raises(BoardQuarantined, match=r"is quarantined since 20.*: 3 runs in a row") as at:
        require_not_quarantined(BOARD, Inventory(), folder=tmp_path)
    assert isinstance(at.value, DeviceError)
    assert "hil bench release 2629845674" in at.value.remedy
    assert len(at.value.evidence) == 3
    assert at.value.evidence[-1].endswith("  no banner")


def test_a_run_that_says_something_of_the_device_resets_the_count(tmp_path: Path) -> None:
    state, said = count(tmp_path, "a", "b", None, "c", "d")
    assert [each.what for each in state.faults] == ["c", "d"]
    assert said == []


def test_it_is_said_once_and_lifted_by_a_person_only(tmp_path: Path) -> None:
    state, said = count(tmp_path, "a", "b", "c", None, after=2)
    assert len(said) == 1
    assert [each.what for each in state.faults] == ["a", "b", "c"]
    assert state.reason is not None
    since = state.quarantined_since
    assert release(BOARD, folder=tmp_path).quarantined_since == since
    require_not_quarantined(BOARD, Inventory(), folder=tmp_path)
    assert read_state(BOARD, folder=tmp_path) == BoardState(BOARD)
    # Nothing to release is no error.
    assert release(BOARD, folder=tmp_path) == BoardState(BOARD)


def test_a_board_that_works_leaves_no_file(tmp_path: Path) -> None:
    count(tmp_path, None, None)
    assert remembered_boards(tmp_path) == ()
    count(tmp_path, "a")
    assert remembered_boards(tmp_path) == (BOARD,)


def test_quarantine_by_the_inventory(tmp_path: Path) -> None:
    path = tmp_path / "bench.toml"
    path.write_text(
        f'[[board]]\nserial_number = "{BOARD}"\nname = "unoq"\nquarantined = "loose socket"\n'
    )
    inventory = load_inventory(path)
    with pytest.raises(
        BoardQuarantined, match=r"quarantined in .*bench.toml:1: loose socket"
    ) as at:
        require_not_quarantined(BOARD, inventory, folder=tmp_path)
    assert "take 'quarantined' out" in at.value.remedy
    require_not_quarantined("another", inventory, folder=tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\0\xff",
        b"[]",
        b"null",
        b"7",
        b'"x"',
        b"{}",
        b"[" * 50_000,
        b'{"serial_number": "another", "faults": [], "quarantined_since": ""}',
        b'{"serial_number": "2629845674", "faults": {}, "quarantined_since": ""}',
        b'{"serial_number": "2629845674", "faults": [1], "quarantined_since": ""}',
        b'{"serial_number": "2629845674", "faults": [{}], "quarantined_since": ""}',
        b'{"serial_number": "2629845674", "faults": [], "quarantined_since": null}',
    ],
)
def test_a_damaged_state_is_said_kept_and_not_fatal(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{BOARD}.json"
    for number in (1, 2):
        path.write_bytes(content)
        said: list[str] = []
        require_not_quarantined(BOARD, Inventory(), progress=said.append, folder=tmp_path)
        (line,) = said
        assert "is damaged" in line
        assert not path.exists()
        aside = tmp_path / f"{BOARD}.json.damaged-{number}"
        assert str(aside) in line
        assert aside.read_bytes() == content
    assert remembered_boards(tmp_path) == ()
    count(tmp_path, "a")
    assert json.loads(path.read_bytes())["faults"][0]["what"] == "a"


def test_a_state_that_cannot_be_read_or_written_is_the_benchs_fault(tmp_path: Path) -> None:
    (tmp_path / f"{BOARD}.json").mkdir()
    with pytest.raises(BenchError, match="cannot read what the bench remembers"):
        read_state(BOARD, folder=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="cannot"):
        record_outcome(BOARD, fault="x", after_faults=3, folder=tmp_path / "file" / "below")


@pytest.mark.parametrize("number", ["../../x", "a/b", ".", "", "x" * 300, "\0", "Ä", "a b"])
def test_any_serial_number_has_a_file_of_its_own(tmp_path: Path, number: str) -> None:
    folder = tmp_path / "state"
    record_outcome(number, fault="x", after_faults=1, folder=folder)
    assert read_state(number, folder=folder).reason is not None
    assert read_state("x", folder=folder).reason is None
    assert [each.name for each in tmp_path.iterdir()] == ["state"]
    assert remembered_boards(folder) == (number,)


def test_the_history_of_a_board_does_not_grow_for_ever(tmp_path: Path) -> None:
    state, _ = count(tmp_path, *["x" * 10_000] * 50)
    assert len(state.faults) == 20
    assert (tmp_path / f"{BOARD}.json").stat().st_size < 30_000
    state, _ = count(tmp_path, *["x"] * 30, after=25)
    assert len(state.faults) == 25


def staged(error: HilError, stage: str) -> HilError:
    error.stage = stage
    return error


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (DeviceError("port vanished", remedy="x"), True),
        (staged(ToolError("upload failed", remedy="x"), "upload"), True),
        (staged(ToolError("arduino-cli is missing", remedy="x"), "build"), False),
        (ToolError("arduino-cli is missing", remedy="x"), False),
        (BenchError("disk full", remedy="x"), False),
        (DutFailure("wrong answer", remedy="x"), False),
        (BoardTaken(BOARD, 1.0, None), False),
        (BoardQuarantined("out of use", remedy="x"), False),
    ],
)
def test_only_what_is_the_boards_counts_against_it(error: HilError, counts: bool) -> None:
    assert counts_against_board(error) is counts
