from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.arena import command
from harness.arena.band import Band
from harness.arena.survey import Wish
from harness.boards.board import Board, CoreVersion
from harness.cli import main
from harness.errors import DeviceError, DutFailure
from tests.unit.arena_bands import ON, band_of


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Wish]]:
    """What the command had measured: nothing is really run, and the model needs 30,150 B."""
    asked: list[tuple[str, Wish]] = []

    def measure(_: object, board: Board, core: CoreVersion, wish: Wish, folder: Path) -> Band:  # noqa: ARG001
        asked.append((core.version, wish))
        on = replace(ON, board=board.name, core_version=core.version)
        return band_of(core, core.arena(wish.sketch), asked=wish.sizes, on=on)

    monkeypatch.setattr(command, "_measure", measure)
    return asked


def test_every_core_version_is_measured_once_and_the_worst_code_counts(
    measured: list[tuple[str, Wish]], capsys: pytest.CaptureFixture[str]
) -> None:
    versions = ("0.55.2", "0.90.0", "0.55.2")
    words = [word for each in versions for word in ("--core-version", each)]
    assert main(["arena", "unoq", "--json", *words]) == 0
    assert [version for version, _ in measured] == ["0.55.2", "0.90.0"]
    first, second = json.loads(capsys.readouterr().out)
    assert first["contradictions"]
    assert (first["data"]["standing"], first["exit_code"]) == ("reported", 0)
    assert (second["contradictions"], second["exit_code"]) == ([], 0)


def test_a_contradiction_of_measured_data_is_exit_code_1(
    measured: list[tuple[str, Wish]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from harness.paths import boards_dir

    text = (boards_dir() / "unoq.toml").read_text(encoding="utf-8")
    wrong = text.replace("works_bytes = [40960, 49152]", "works_bytes = [29696]")
    (tmp_path / "unoq.toml").write_text(wrong, encoding="utf-8")
    words = ["arena", str(tmp_path / "unoq.toml"), "--core-version", "0.90.0"]
    assert main(words) == 1
    assert "29696 B is known working by the data, and here it fails" in capsys.readouterr().out
    assert len(measured) == 1


def test_sizes_and_canary_are_passed_on(measured: list[tuple[str, Wish]]) -> None:
    main(["arena", "m33", "--sizes", "40K,28K", "--canary", "64K", "--json"])
    main(["arena", "m33", "--canary", "never", "--json"])
    main(["arena", "m33", "--json"])
    wishes = [wish for _, wish in measured]
    assert [each.sizes for each in wishes] == [(28672, 40960), (), ()]
    assert [each.canary for each in wishes] == [(65536,), (), None]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sizes", "lots"], "'lots' is not an arena size"),
        (["--sizes", ""], "'' is not an arena size"),
        (["--canary", "sometimes"], "'sometimes' is not an arena size"),
        (["--sketch", "../../etc"], "is not the name of a sketch"),
        (["--sketch", ""], "is not the name of a sketch"),
        (["--core-version", "9"], "has no core version '9'"),
        (["--virtual"], "has no stand-in"),
        (["--executorch", "/nowhere"], "/nowhere"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["arena", "m33", *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "remedy:" in error
    assert "Traceback" not in error


def test_without_a_library_it_is_skipped_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arena", "m33"]) == 4
    error = capsys.readouterr().err
    assert "skipped in arena: board 'm33' needs the Arduino library" in error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DutFailure("the sketch is wrong", remedy="mend it"), 1),
        (DeviceError("the board is gone", remedy="plug it in"), 3),
    ],
)
def test_what_breaks_on_the_way_has_its_own_code(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> Band:
        raise error

    monkeypatch.setattr(command, "_measure", fail)
    assert main(["arena", "m33"]) == code
    assert str(error) in capsys.readouterr().err


def test_a_recorded_band_is_in_the_file(
    measured: list[tuple[str, Wish]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from harness.boards.board import load_board
    from harness.paths import boards_dir

    path = tmp_path / "m33.toml"
    path.write_bytes((boards_dir() / "m33.toml").read_bytes())
    assert main(["arena", str(path), "--record", "--sizes", "28K,36K,40K"]) == 0
    assert measured
    found = load_board(path).default_core_version.arena("KeywordSpotting")
    assert found is not None
    assert (found.fails_bytes, found.works_bytes) == ((28672,), (36864, 40960))
    assert "recorded: m33.toml" in capsys.readouterr().err
