from __future__ import annotations

import difflib
import shutil
import threading
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from harness.arena.record import record, recordable, with_band
from harness.boards.board import ArenaBand, Board, Standing, find_board, load_board
from harness.errors import BenchError, HilError, UsageError
from harness.paths import boards_dir
from tests.unit.arena_bands import ON, band_of, canary

SKETCH = "KeywordSpotting"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def unoq(tmp_path: Path) -> Board:
    """A copy of the Uno Q's file."""
    shutil.copy(boards_dir() / "unoq.toml", tmp_path / "unoq.toml")
    return load_board(tmp_path / "unoq.toml")


def measured(board: Board, version: str = "0.90.0", **changed: object) -> ArenaBand:
    core = board.core_version(version)
    band = recordable(band_of(core, core.arena(SKETCH)), user="ada")
    return replace(band, **changed)  # type: ignore[arg-type]  # the keys are those of the class


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0)
    return [each for each in lines if each[:1] in "+-" and each[:3] not in ("+++", "---")]


def test_who_when_and_on_what_are_in_the_source(unoq: Board) -> None:
    source = measured(unoq).source
    for told in ("2026-11-29", "ada", "cff6f4dd32", "a real board SN1", "the example's own model",
                 "least 30150 B"):  # fmt: skip
        assert told in source


def test_a_recorded_band_replaces_the_old_one_and_nothing_else(unoq: Board) -> None:
    before = unoq.path.read_text(encoding="utf-8")
    said = record(unoq, "0.90.0", measured(unoq), stand_in=False)
    after = unoq.path.read_text(encoding="utf-8")
    again = load_board(unoq.path)
    found = again.core_version("0.90.0").arena(SKETCH)
    assert found == measured(unoq)
    assert again.core_version("0.55.2") == unoq.core_version("0.55.2")
    assert {each.split(" = ")[0] for each in changed_lines(before, after)} <= {
        "-works_bytes", "+works_bytes", "-untested_bytes", "+untested_bytes", "-source", "+source",
    }  # fmt: skip
    assert "the library's README" in said


def test_comments_survive_wherever_they_stand(unoq: Board) -> None:
    text = unoq.path.read_text(encoding="utf-8")
    text = text.replace(
        "works_bytes = [40960, 49152]",
        "# above the key\nworks_bytes = [\n  40960, # inside\n  49152,\n] # behind",
    ).replace("shipped_bytes = 40960", "shipped_bytes = 40960   # what it ships")
    old = "source = \"the library's README, measured by its authors on a Uno Q: 28 KB"
    assert old in text
    text = text.replace(old, old.replace("README", "README #1"))
    unoq.path.write_text(text + "\n# the very end\n", encoding="utf-8")
    before = [line for line in unoq.path.read_text(encoding="utf-8").splitlines() if "#" in line]
    record(unoq, "0.90.0", measured(unoq), stand_in=False)
    after = unoq.path.read_text(encoding="utf-8")
    for comment in ("# above the key\n", "# inside\n", "] # behind\n", "40960   # what it ships\n",
                    "# the very end\n"):  # fmt: skip
        assert comment in after
    kept = [line for line in before if line.startswith("#")]
    assert kept
    assert all(line in after.splitlines() for line in kept)
    assert load_board(unoq.path).core_version("0.90.0").arena(SKETCH) == measured(unoq)


@pytest.mark.parametrize("version", ["0.55.2", "0.90.0"])
def test_a_band_of_another_sketch_is_added_to_its_core(unoq: Board, version: str) -> None:
    before = unoq.path.read_text(encoding="utf-8")
    added = measured(unoq, sketch="AddModel", standing=Standing.REPORTED)
    said = record(unoq, version, added, stand_in=False)
    after = unoq.path.read_text(encoding="utf-8")
    assert "new band" in said
    assert all(each.startswith("+") for each in changed_lines(before, after))
    again = load_board(unoq.path)
    assert again.core_version(version).arena("AddModel") == added
    assert again.core_version(version).arena(SKETCH) == unoq.core_version(version).arena(SKETCH)
    other = "0.90.0" if version == "0.55.2" else "0.55.2"
    assert again.core_version(other) == unoq.core_version(other)


def test_recording_twice_changes_nothing_more(unoq: Board) -> None:
    for _ in range(2):
        record(unoq, "0.55.2", measured(unoq, "0.55.2"), stand_in=False)
    once = unoq.path.read_text(encoding="utf-8")
    record(unoq, "0.55.2", measured(unoq, "0.55.2"), stand_in=False)
    assert unoq.path.read_text(encoding="utf-8") == once
    assert once.count("[[core_version.arena]]") == 2


def test_a_reported_band_becomes_a_measured_one(unoq: Board) -> None:
    record(unoq, "0.55.2", measured(unoq, "0.55.2"), stand_in=False)
    found = load_board(unoq.path).core_version("0.55.2").arena(SKETCH)
    assert found is not None
    assert found.standing is Standing.MEASURED
    assert found.fails_bytes == (28672,)


def test_a_stand_in_never_replaces_what_a_real_board_measured(unoq: Board) -> None:
    before = unoq.path.read_bytes()
    with pytest.raises(UsageError, match=r"measured on the real board.*stand-in's") as caught:
        record(unoq, "0.90.0", measured(unoq), stand_in=True)
    assert "README" in caught.value.evidence[0]
    assert unoq.path.read_bytes() == before


def test_a_stand_ins_band_is_reported_and_says_stand_in(unoq: Board) -> None:
    core = unoq.core_version("0.55.2")
    on = replace(ON, stand_in=True, core_version="0.55.2")
    band = recordable(band_of(core, core.arena(SKETCH), on=on), user="ada")
    assert band.standing is Standing.REPORTED
    record(unoq, "0.55.2", band, stand_in=True)
    found = load_board(unoq.path).core_version("0.55.2").arena(SKETCH)
    assert found is not None
    assert found.standing is Standing.REPORTED
    assert "the stand-in, not a real board" in found.source


def test_what_reaches_the_reservation_is_not_recorded_as_working(unoq: Board) -> None:
    core = unoq.core_version("0.55.2")
    band = recordable(band_of(core, core.arena(SKETCH)), user="ada")
    assert band.works_bytes == (40960,)
    assert band.untested_bytes == (65536,)
    found = canary(49152, changed_bytes=1)
    new = unoq.core_version("0.90.0")
    band = recordable(band_of(new, new.arena(SKETCH), canaries=(found,)), user="ada")
    assert 49152 not in band.works_bytes
    assert 49152 in band.untested_bytes


def test_sizes_that_the_suite_cannot_give_are_told_and_not_listed(unoq: Board) -> None:
    core = unoq.core_version("0.90.0")
    band = recordable(band_of(core, core.arena(SKETCH), asked=(30149, 40960)), user="ada")
    assert (band.works_bytes, band.fails_bytes) == ((40960,), ())
    assert "30149 B tried, too" in band.source


@pytest.mark.parametrize(
    "user", ['a"b', "back\\slash", "new\nline", "\x00\x7f\x1b[2J", "Žofie", "#"]
)
def test_a_users_name_cannot_break_the_file(unoq: Board, user: str) -> None:
    core = unoq.core_version("0.90.0")
    band = recordable(band_of(core, core.arena(SKETCH)), user=user)
    record(unoq, "0.90.0", band, stand_in=False)
    found = load_board(unoq.path).core_version("0.90.0").arena(SKETCH)
    assert found is not None
    assert found.source == band.source
    record(unoq, "0.90.0", measured(unoq), stand_in=False)
    assert load_board(unoq.path).core_version("0.90.0").arena(SKETCH) == measured(unoq)


@pytest.mark.parametrize("name", ["m33", "m3", "unoq"])
def test_every_kind_of_file_here_can_be_recorded_into(tmp_path: Path, name: str) -> None:
    shutil.copy(boards_dir() / f"{name}.toml", tmp_path / f"{name}.toml")
    board = load_board(tmp_path / f"{name}.toml")
    for core in board.core_versions:
        band = recordable(band_of(core, core.arena(SKETCH)), user="ada")
        record(board, core.version, band, stand_in=False)
        assert load_board(board.path).core_version(core.version).arena(SKETCH) == band


def test_a_file_without_a_last_newline_is_added_to(unoq: Board) -> None:
    text = unoq.path.read_text(encoding="utf-8").rstrip("\n")
    new = with_band(text, "0.90.0", measured(unoq, sketch="AddModel"))
    assert [each["sketch"] for each in tomllib.loads(new)["core_version"][1]["arena"]] == [
        SKETCH,
        "AddModel",
    ]


def test_windows_line_ends_stay(unoq: Board) -> None:
    plain = unoq.path.read_bytes()
    unoq.path.write_bytes(plain.replace(b"\n", b"\r\n"))
    record(unoq, "0.90.0", measured(unoq), stand_in=False)
    after = unoq.path.read_bytes()
    assert after.count(b"\n") == after.count(b"\r\n") > 50
    assert load_board(unoq.path).core_version("0.90.0").arena(SKETCH) == measured(unoq)


def test_a_value_that_looks_like_a_header_is_no_header(unoq: Board) -> None:
    text = unoq.path.read_text(encoding="utf-8")
    old = "the library's README, measured by its authors on a Uno Q: 28 KB is 180 B short at the"
    assert old in text
    text = text.replace(f'"{old} first failing request"', "'''\n[[core_version.arena]]\n'''")
    new = with_band(text, "0.90.0", measured(unoq))
    arenas = tomllib.loads(new)["core_version"][1]["arena"]
    assert [each["source"] for each in arenas] == [measured(unoq).source]


def test_a_core_that_is_not_there_is_refused(unoq: Board) -> None:
    text = unoq.path.read_text(encoding="utf-8")
    with pytest.raises(UsageError, match=r"no \[\[core_version\]\] table '1\.0\.0'"):
        with_band(text, "1.0.0", measured(unoq))


def test_cores_written_inline_are_refused_and_left_alone(unoq: Board) -> None:
    text = unoq.path.read_text(encoding="utf-8")
    head = text[: text.index("[[core_version]]")]
    inline = (
        'core_version = [{version = "0.90.0", flash_bytes = 1, ram_bytes = 1, stack_bytes = 0,'
        ' heap_bytes = 0, source = "x"}]\n'
    )
    unoq.path.write_text(inline + head, encoding="utf-8")
    board = load_board(unoq.path)
    with pytest.raises(UsageError, match=r"no \[\[core_version\]\] table"):
        record(board, "0.90.0", measured(unoq), stand_in=False)
    assert unoq.path.read_text(encoding="utf-8") == inline + head


def test_a_change_that_would_do_more_is_refused(
    unoq: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    def clumsy(text: str, core_version: str, band: ArenaBand) -> str:
        return with_band(text, core_version, band).replace("baud = 115200", "baud = 9600")

    monkeypatch.setattr("harness.arena.record.with_band", clumsy)
    before = unoq.path.read_bytes()
    with pytest.raises(UsageError, match="without changing more than it"):
        record(unoq, "0.90.0", measured(unoq), stand_in=False)
    assert unoq.path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_one_sentence(
    unoq: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("harness.arena.record.write_atomically", refuse)
    with pytest.raises(BenchError, match="cannot write") as caught:
        record(unoq, "0.90.0", measured(unoq), stand_in=False)
    assert "Permission denied" in caught.value.message


def test_two_that_record_at_once_lose_nothing(unoq: Board) -> None:
    failed: list[HilError] = []

    def add(name: str) -> None:
        try:
            record(unoq, "0.90.0", measured(unoq, sketch=name), stand_in=False)
        except HilError as error:
            failed.append(error)

    names = [f"Sketch{number}" for number in range(6)]
    threads = [threading.Thread(target=add, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not failed
    recorded = {each.sketch for each in load_board(unoq.path).core_version("0.90.0").arenas}
    assert recorded == {SKETCH, *names}


def test_the_benchs_own_files_were_not_touched() -> None:
    assert find_board("unoq").core_version("0.90.0").arena("AddModel") is None
