"""Digests: the same for the same content, another for any other, and never stale."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from harness.errors import BenchError, UsageError
from harness.storage.digest import (
    bytes_digest,
    file_digest,
    metadata_digest,
    parts_digest,
    remembered_digest,
    text_digest,
    tree_digest,
    tree_files,
)

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def make(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_bytes_text_and_file_agree(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("ü".encode())
    assert bytes_digest(b"") == EMPTY
    assert file_digest(path) == text_digest("ü") == bytes_digest("ü".encode())


def test_parts_do_not_run_together() -> None:
    assert parts_digest("ab", "c") != parts_digest("a", "bc")
    assert parts_digest("a") != parts_digest("a", "")


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"cannot read '.*gone'"):
        file_digest(tmp_path / "gone")


def test_trees_with_equal_names_and_content_are_equal(tmp_path: Path) -> None:
    one = make(tmp_path / "one", b="2", a="1", d__c="3")
    two = make(tmp_path / "two", d__c="3", a="1", b="2")
    (two / "a").chmod(0o600)
    os.utime(two / "b", ns=(1, 1))
    assert tree_digest(one) == tree_digest(two)


@pytest.mark.parametrize("change", ["content", "name", "more", "moved between files"])
def test_any_difference_gives_another_digest(tmp_path: Path, change: str) -> None:
    root = make(tmp_path / "one", a="1", b="2")
    before = tree_digest(root)
    if change == "content":
        make(root, a="3")
    elif change == "name":
        (root / "a").rename(root / "c")
    elif change == "more":
        make(root, c="")
    else:
        make(root, a="2", b="1")
    assert tree_digest(root) != before


def test_links_are_followed_and_bookkeeping_and_sockets_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make(tmp_path / "one", a="1")
    other = make(tmp_path / "two", x="2")
    (root / "there").symlink_to(other)
    (root / "nothing").symlink_to(tmp_path / "absent")
    (root / ".git").mkdir()
    make(root / ".git", HEAD="ref")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(root)  # a socket's whole path holds 107 bytes
        listener.bind("s")
        names = [each.name for each in tree_files(root)]
    assert names == ["a", "there/x"]


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    root = make(tmp_path / "one", a="1")
    (root / "up").symlink_to(root)
    with pytest.raises(UsageError, match="leads back"):
        tree_files(root)


def test_two_links_to_one_folder_are_no_circle(tmp_path: Path) -> None:
    root = make(tmp_path / "one", shared__a="1")
    (root / "x").symlink_to(root / "shared")
    (root / "y").symlink_to(root / "shared")
    assert [each.name for each in tree_files(root)] == ["shared/a", "x/a", "y/a"]


def test_a_file_is_a_tree_of_one(tmp_path: Path) -> None:
    root = make(tmp_path, a="1")
    assert [each.name for each in tree_files(root / "a")] == ["."]


def test_metadata_sees_a_change_that_restores_size_and_time(tmp_path: Path) -> None:
    root = make(tmp_path, a="1")
    facts = (root / "a").stat()
    before = metadata_digest(tree_files(root))
    make(root, a="2")
    os.utime(root / "a", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert metadata_digest(tree_files(root)) != before


def test_fresh_files_are_never_remembered(tmp_path: Path) -> None:
    """A second change within one tick of the clock has the same metadata."""
    root, memory = make(tmp_path / "tree", a="1"), tmp_path / "memory.json"
    remembered_digest(tree_files(root), memory)
    lie(memory)
    assert remembered_digest(tree_files(root), memory) == tree_digest(root)


def test_settled_files_are_remembered_until_touched(tmp_path: Path) -> None:
    root, memory = make(tmp_path / "tree", a="1"), tmp_path / "memory.json"
    first = remembered_digest(tree_files(root), memory)
    lie(memory, settled=True)
    assert remembered_digest(tree_files(root), memory) == "a lie"
    make(root, a="1")
    assert remembered_digest(tree_files(root), memory) == first


@pytest.mark.parametrize("content", ["", "[]", "{", '{"metadata": 1}', "\0"])
def test_a_spoilt_memory_costs_time_only(tmp_path: Path, content: str) -> None:
    root, memory = make(tmp_path / "tree", a="1"), tmp_path / "memory.json"
    memory.write_text(content, encoding="utf-8")
    assert remembered_digest(tree_files(root), memory) == tree_digest(root)


def test_a_memory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    root = make(tmp_path / "tree", a="1")
    make(tmp_path, blocked="a file, not a folder")
    found = remembered_digest(tree_files(root), tmp_path / "blocked" / "memory.json")
    assert found == tree_digest(root)


def lie(memory: Path, *, settled: bool = False) -> None:
    """Change what is remembered, so that a test sees whether it was used."""
    held = json.loads(memory.read_text(encoding="utf-8"))
    held["digest"] = "a lie"
    if settled:
        held["began_ns"] += 60 * 10**9
    memory.write_text(json.dumps(held), encoding="utf-8")
