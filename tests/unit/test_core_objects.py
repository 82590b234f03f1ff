"""The core's objects in new build paths: the same ones, or none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.arduino.core_objects import keep, put
from harness.storage import cache


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A build path after a compile."""
    out = tmp_path / "first" / "out"
    (out / "core" / "deep").mkdir(parents=True)
    for name in ("main.cpp", "deep/Print.cpp"):
        (out / "core" / f"{name}.o").write_bytes(b"object of " + name.encode())
        (out / "core" / f"{name}.d").write_text(
            f"{out}/core/{name}.o: \\\n /platform/{name} \\\n /platform/Arduino.h\n"
        )
    (out / "core" / "core.a").write_bytes(b"!<arch>\n")
    return out


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_new_build_path_gets_them_as_if_compiled_there(built: Path, tmp_path: Path) -> None:
    keep(built, "key")
    other = tmp_path / "second" / "out"
    put(other, "key")
    assert files(other) == files(built)
    for name in ("main.cpp", "deep/Print.cpp"):
        assert (other / "core" / f"{name}.o").read_bytes() == b"object of " + name.encode()
        lines = (other / "core" / f"{name}.d").read_text().splitlines()
        assert lines[0] == f"{other}/core/{name}.o: \\"
        assert str(built) not in "".join(lines)
    times = {path.stat().st_mtime_ns for path in (other / "core").rglob("*") if path.is_file()}
    assert len(times) == 1
    # What is kept survives the build path that it comes from.
    shutil.rmtree(built)
    put(tmp_path / "third", "key")
    assert files(tmp_path / "third") == files(other)


def test_what_was_compiled_there_is_left(built: Path, tmp_path: Path) -> None:
    keep(built, "key")
    other = tmp_path / "second"
    (other / "core").mkdir(parents=True)
    (other / "core" / "main.cpp.o").write_bytes(b"newer")
    put(other, "key")
    assert files(other) == {"core/main.cpp.o"}


def test_another_key_has_none(built: Path, tmp_path: Path) -> None:
    keep(built, "key")
    put(tmp_path / "second", "another")
    assert not (tmp_path / "second").exists()


def test_a_build_path_without_an_archive_is_not_kept(
    built: Path, tmp_path: Path, own_cache: Path
) -> None:
    (built / "core" / "core.a").unlink()
    keep(built, "key")
    keep(tmp_path / "nowhere", "key")
    put(tmp_path / "second", "key")
    assert not (tmp_path / "second").exists()
    assert not (own_cache / "core").exists()


def test_a_damaged_entry_is_not_used(built: Path, tmp_path: Path, own_cache: Path) -> None:
    keep(built, "key")
    (own_cache / "core" / "key" / "main.cpp.o").write_bytes(b"cut")
    put(tmp_path / "second", "key")
    assert not (tmp_path / "second").exists()
    keep(built, "key")
    put(tmp_path / "second", "key")
    assert files(tmp_path / "second") == files(built)


def test_half_a_copy_is_none(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(built, "key")

    def full(source: str, target: str) -> str:
        if source.endswith("main.cpp.o"):
            raise OSError(28, "No space left on device")
        return str(shutil.copyfile(source, target))

    monkeypatch.setattr("harness.arduino.core_objects._copy", full)
    put(tmp_path / "second", "key")
    assert not (tmp_path / "second" / "core").exists()


def test_no_room_to_keep_them_fails_nothing(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.arduino.core_objects.shutil.copytree", full)
    keep(built, "key")
    assert cache.found("core", "key") is None
