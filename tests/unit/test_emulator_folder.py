import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.emulator import folder as folders
from harness.emulator.folder import OwnerId, PluggedRecord
from harness.errors import BenchError, UsageError

ME = OwnerId.of(os.getpid())
NOBODY = OwnerId(2**22 - 1, "1")


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder that does not exist yet, short enough for a socket."""
    with TemporaryDirectory(prefix="hil") as outer:
        monkeypatch.setenv("HIL_RUN_DIR", f"{outer}/run")
        yield Path(outer) / "run"


def plug(folder: Path, owner: OwnerId) -> PluggedRecord:
    record = PluggedRecord(
        board="m33",
        fqbn="hil:virtual:m33",
        address=str(folder / "tty"),
        vid="0x1209",
        pid="0x0033",
        serial_number=folder.name,
        label="a board",
        pid_of_owner=owner.pid,
        owner_started=owner.started,
        control=str(folder / "control.sock"),
        started="2026-01-01T00:00:00.000+00:00",
    )
    folders.announce(record, folder)
    return record


def test_numbers_are_the_first_free_ones(run_dir: Path) -> None:
    taken = [folders.claim("m33", None, ME).name for _ in range(3)]
    assert taken == ["HILM330001", "HILM330002", "HILM330003"]
    folders.remove(run_dir / "boards" / "HILM330002")
    assert folders.claim("m33", None, ME).name == "HILM330002"
    assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700


def test_taken_number_is_refused(run_dir: Path) -> None:
    folders.claim("m33", "BENCH7", ME)
    with pytest.raises(UsageError, match="'BENCH7' is already plugged in"):
        folders.claim("m33", "BENCH7", ME)
    assert sorted(each.name for each in (run_dir / "boards").iterdir()) == [".lock", "BENCH7"]


@pytest.mark.parametrize("number", ["", "../evil", "a b", "x" * 33, "a\n"])
def test_malformed_number_is_refused(run_dir: Path, number: str) -> None:
    with pytest.raises(UsageError, match="not 1 to 32 letters and digits"):
        folders.claim("m33", number, ME)
    assert not run_dir.exists()


def test_board_is_there_only_when_announced(run_dir: Path) -> None:
    folder = folders.claim("m33", None, ME)
    assert folders.records() == ()
    record = plug(folder, ME)
    assert folders.records() == (record,)
    assert folder.parent.parent == run_dir


def test_what_a_dead_owner_left_is_removed(run_dir: Path) -> None:
    plug(folders.claim("m33", None, NOBODY), NOBODY)
    assert folders.records(sweep=False) == ()
    assert (run_dir / "boards" / "HILM330001").is_dir()
    assert folders.records() == ()
    assert not (run_dir / "boards" / "HILM330001").exists()


def test_reused_process_id_is_not_the_owner(run_dir: Path) -> None:
    before = replace(ME, started="1")
    plug(folders.claim("m33", None, before), before)
    assert folders.records() == ()
    assert folders.claim("m33", None, ME).parent.parent == run_dir


@pytest.mark.parametrize("text", ["", "{", "[]", '{"board": "m33"}'])
def test_broken_record_is_no_board(run_dir: Path, text: str) -> None:
    folder = folders.claim("m33", None, ME)
    (folder / "board.json").write_text(text)
    assert folders.records() == ()
    assert run_dir.is_dir()


def test_folder_open_to_others_is_closed(run_dir: Path) -> None:
    run_dir.mkdir(mode=0o755)
    run_dir.chmod(0o777)
    folders.claim("m33", None, ME)
    assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700


def test_link_in_place_of_the_folder_is_refused(run_dir: Path, tmp_path: Path) -> None:
    run_dir.symlink_to(tmp_path)
    with pytest.raises(BenchError, match="is not a folder of this user"):
        folders.claim("m33", None, ME)


def test_folder_of_somebody_else_is_refused(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(BenchError, match="is not a folder of this user"):
        folders.claim("m33", None, ME)


def test_path_too_long_for_a_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(prefix="hil") as outer:
        monkeypatch.setenv("HIL_RUN_DIR", f"{outer}/{'x' * 80}")
        with pytest.raises(BenchError, match="too long for a Unix socket"):
            folders.claim("m33", None, ME)


def test_record_is_json_that_others_can_read(run_dir: Path) -> None:
    plug(folders.claim("m33", None, ME), ME)
    raw = json.loads((run_dir / "boards" / "HILM330001" / "board.json").read_text())
    assert raw["serial_number"] == "HILM330001"
    assert raw["pid_of_owner"] == os.getpid()
