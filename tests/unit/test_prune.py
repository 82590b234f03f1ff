"""What pruning takes away from the cache, and what it leaves alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.cli import main
from harness.clock import wall_s
from harness.storage import cache
from harness.storage.lock import hold
from harness.storage.prune import DAY_S, kept, prune, prune_daily


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a configuration that is not there."""
    place = tmp_path / "cache"
    place.mkdir()
    monkeypatch.setenv("HIL_CACHE", str(place))
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    return place


def make(kind: str, key: str, *, unused_days: float = 0.0, nbytes: int = 5000) -> Path:
    def write(place: Path) -> None:
        (place / "file").write_bytes(bytes(nbytes))

    place = cache.entry(kind, key, write)
    age(place / cache.SEAL, unused_days)
    return place


def build_path(folder: Path, name: str, *, unused_days: float) -> Path:
    work = folder / "build" / "m33" / name
    (work / "out").mkdir(parents=True)
    (work / "out" / "a.o").write_bytes(b"object")
    age(work / "out", unused_days)
    return work


def age(path: Path, days: float) -> None:
    at = wall_s() - days * DAY_S
    os.utime(path, (at, at))


def silent(line: str) -> None:
    raise AssertionError(line)


def names() -> list[str]:
    return [f"{each.kind}/{each.name}" for each in kept()]


def test_only_what_was_not_used_for_long_goes(folder: Path) -> None:
    old, new = make("firmware", "old", unused_days=31), make("firmware", "new", unused_days=29)
    stale = build_path(folder, "stale", unused_days=40)
    fresh = build_path(folder, "fresh", unused_days=1)
    assert names() == ["build/m33/stale", "firmware/old", "firmware/new", "build/m33/fresh"]
    gone = prune(30, progress=silent)
    assert [each.name for each in gone] == ["m33/stale", "old"]
    assert all(each.nbytes > 0 for each in gone)
    assert not old.exists()
    assert not stale.exists()
    assert (new / "file").is_file()
    assert (fresh / "out" / "a.o").is_file()
    assert prune(30, progress=silent) == []


def test_what_is_asked_for_counts_as_used(folder: Path) -> None:
    place = make("model", "key", unused_days=100)
    made: list[Path] = []
    assert cache.entry("model", "key", made.append) == place
    assert made == []
    assert prune(30, progress=silent) == []
    # And is not written to more than once a day.
    age(place / cache.SEAL, 0.5)
    before = (place / cache.SEAL).stat().st_mtime_ns
    cache.entry("model", "key", made.append)
    assert (place / cache.SEAL).stat().st_mtime_ns == before
    assert folder.is_dir()


def test_what_was_pruned_is_made_again(folder: Path) -> None:
    make("library", "key", unused_days=50)
    prune(30, progress=silent)
    place = make("library", "key", nbytes=7)
    assert (place / "file").read_bytes() == bytes(7)
    assert [path.name for path in (folder / "library").glob(".tmp-*")] == []


def test_what_another_process_is_at_stays(folder: Path) -> None:
    place = make("firmware", "busy", unused_days=60)
    work = build_path(folder, "busy", unused_days=60)
    with (
        hold(cache.lock_of(place), purpose="making it"),
        hold(work.with_suffix(".lock"), purpose="compiling"),
    ):
        assert prune(30, progress=silent) == []
    assert place.is_dir()
    assert {each.kind for each in prune(30, progress=silent)} == {"build", "firmware"}


def test_what_is_not_an_entry_is_not_touched(folder: Path, tmp_path: Path) -> None:
    others = [
        folder / "arduino-cli" / "1.5.1" / "arduino-cli",
        folder / "arduino" / "abc" / "user" / "hardware",
        folder / "bench" / "SN1.json",
        folder / "digest" / "x.json",
        folder / "firmware" / "half" / "file",
        folder / "build" / "stray",
        tmp_path / "elsewhere" / "file",
    ]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine", encoding="utf-8")
        age(path, 900)
        age(path.parent, 900)
    (tmp_path / "elsewhere" / cache.SEAL).write_text("{}", encoding="utf-8")
    age(tmp_path / "elsewhere" / cache.SEAL, 900)
    (folder / "firmware" / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "model").symlink_to(tmp_path)
    assert prune(0, progress=silent) == []
    assert all(path.read_text(encoding="utf-8") == "mine" for path in others)


def test_a_clock_that_went_back_takes_nothing(folder: Path) -> None:
    make("firmware", "future", unused_days=-3)
    assert folder.is_dir()
    assert kept()[0].unused_s == 0.0
    assert prune(1, progress=silent) == []


def test_what_cannot_be_removed_is_said_and_the_rest_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("firmware", "a", unused_days=50)
    stuck = make("firmware", "b", unused_days=60)
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self == stuck:
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    said: list[str] = []
    assert [each.name for each in prune(30, progress=said.append)] == ["a"]
    assert said == [f"{stuck} could not be removed from the cache: [Errno 13] Permission denied"]
    assert folder.is_dir()


def test_once_a_day_without_being_asked(folder: Path) -> None:
    make("firmware", "a", unused_days=50)
    assert prune_daily(0, progress=silent) == []
    assert not (folder / ".pruned").exists()
    assert [each.name for each in prune_daily(30, progress=silent)] == ["a"]
    make("firmware", "b", unused_days=50)
    assert prune_daily(30, progress=silent) == []
    age(folder / ".pruned", 1.1)
    assert [each.name for each in prune_daily(30, progress=silent)] == ["b"]


def test_no_cache_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "none"))
    assert kept() == []
    assert prune_daily(30, progress=silent) == []


def test_the_command_shows_and_prunes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make("firmware", "a", unused_days=50, nbytes=3_000_000)
    make("firmware", "b", unused_days=2)
    assert main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert str(folder) in shown
    assert "firmware         2     3.0 MB  longest unused: 50 days" in shown
    assert main(["cache", "--json"]) == 0
    (kind,) = json.loads(capsys.readouterr().out)["kinds"]
    assert (kind["kind"], kind["count"], kind["longest_unused_days"]) == ("firmware", 2, 50.0)
    assert main(["cache", "prune", "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "  firmware/a: 3.0 MB\nwould remove 1 thing, 3.0 MB, unused for 14 days\n"
    )
    assert names() == ["firmware/a", "firmware/b"]
    assert main(["cache", "prune"]) == 0
    assert capsys.readouterr().out == "removed 1 thing, 3.0 MB, unused for 14 days\n"
    assert main(["cache", "prune", "--unused-for", "0"]) == 0
    assert "removed 1 thing" in capsys.readouterr().out
    assert names() == []


@pytest.mark.parametrize("days", ["-1", "many", "nan", "inf", ""])
def test_what_is_no_number_of_days(
    folder: Path, capsys: pytest.CaptureFixture[str], days: str
) -> None:
    make("firmware", "a", unused_days=50)
    assert main(["cache", "prune", f"--unused-for={days}"]) == 2
    assert f"--unused-for {days!r} is no number of days" in capsys.readouterr().err
    assert names() == ["firmware/a"]
    assert folder.is_dir()


def test_the_configuration_says_how_long(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make("firmware", "a", unused_days=10)
    config = tmp_path / "config.toml"
    config.write_text("keep_unused_days = 7\n", encoding="utf-8")
    assert main(["cache", "prune", "--dry-run"]) == 0
    assert "would remove 1 thing" in capsys.readouterr().out
    config.write_text("keep_unused_days = 0\n", encoding="utf-8")
    assert main(["cache", "prune"]) == 2
    assert "keep_unused_days = 0, which is for ever" in capsys.readouterr().err
    config.write_text('keep_unused_days = "7"\n', encoding="utf-8")
    assert main(["cache", "prune"]) == 2
    assert "keep_unused_days" in capsys.readouterr().err
    assert folder.is_dir()
