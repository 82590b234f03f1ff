"""Cache entries: made once, whole or absent, and made again when they were spoilt."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from harness.errors import BenchError, ToolError
from harness.storage.cache import entry
from harness.storage.lock import hold


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Builder:
    def __init__(self, text: str = "content") -> None:
        self.calls = 0
        self.text = text

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        assert not list(folder.iterdir())
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text(self.text, encoding="utf-8")


def visible(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if not each.name.endswith(".lock"))


def test_an_entry_is_made_once(cache: Path) -> None:
    build = Builder()
    first = entry("thing", "key", build)
    assert entry("thing", "key", build) == first == cache / "thing" / "key"
    assert build.calls == 1
    assert (first / "inner/file").read_text(encoding="utf-8") == "content"
    assert visible(cache / "thing") == ["key"]


@pytest.mark.parametrize("spoil", ["removed", "shorter", "seal removed", "added", "seal spoilt"])
def test_a_spoilt_entry_is_made_again(cache: Path, spoil: str) -> None:
    build = Builder()
    place = entry("thing", "key", build)
    inner = place / "inner" / "file"
    if spoil == "removed":
        inner.unlink()
    elif spoil == "shorter":
        inner.write_text("con", encoding="utf-8")
    elif spoil == "added":
        (place / "stray").write_text("", encoding="utf-8")
    elif spoil == "seal spoilt":
        (place / ".entry.json").write_bytes(b"\xff")
    else:
        (place / ".entry.json").unlink()
    entry("thing", "key", build)
    assert build.calls == 2
    assert inner.read_text(encoding="utf-8") == "content"
    assert visible(cache / "thing") == ["key"]


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        ToolError("no", remedy="none"),
        ValueError("no"),
    ],
)
def test_whatever_ends_a_build_leaves_nothing(cache: Path, error: BaseException) -> None:
    def build(folder: Path) -> None:
        Builder()(folder)
        raise error

    with pytest.raises(type(error)):
        entry("thing", "key", build)
    assert visible(cache / "thing") == []
    entry("thing", "key", Builder())


def test_a_full_disk_is_one_sentence(cache: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("half", encoding="utf-8")
        # Writing to it fails as on a full disk; the kernel provides it for this.
        with Path("/dev/full").open("w", encoding="utf-8") as full:
            full.write("x")

    with pytest.raises(BenchError, match="is full, so the thing entry was not made") as caught:
        entry("thing", "key", build)
    assert "HIL_CACHE" in caught.value.remedy
    assert visible(cache / "thing") == []


def test_a_disk_that_fills_while_an_old_entry_is_replaced(cache: Path) -> None:
    place = entry("thing", "key", Builder())
    (place / "inner/file").unlink()

    def build(_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(BenchError, match="is full"):
        entry("thing", "key", build)
    with pytest.raises(BenchError, match="is full"):
        entry("thing", "key", build)
    assert visible(cache / "thing") == ["key"]


def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    cache.write_text("a file where the folder should be", encoding="utf-8")
    with pytest.raises(BenchError, match="cannot open the lock"):
        entry("thing", "key", Builder())


def test_what_ended_processes_left_is_swept_and_what_live_ones_make_is_not(cache: Path) -> None:
    folder = cache / "thing"
    for name in (".tmp-key-1", ".tmp-other-2", ".tmp-busy-3"):
        (folder / name).mkdir(parents=True)
    with hold(folder / ".busy.lock", purpose="test"):
        entry("thing", "key", Builder())
    assert visible(folder) == [".tmp-busy-3", "key"]


@pytest.mark.parametrize("key", ["", "a/b", "..", ".hidden", "a\nb"])
def test_a_key_is_one_plain_name(key: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        entry("thing", key, Builder())
