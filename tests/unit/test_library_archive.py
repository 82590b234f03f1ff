"""Zip files from somewhere: the good ones unpack, every kind of bad one is refused by name."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.library.archive import Limits, unpack

GOOD = {"library.properties": b"name=ExecuTorch\n", "src/ExecuTorch.h": b"#pragma once\n"}


def pack(path: Path, files: dict[str, bytes], *, below: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(below + name, content)
    return path


def refused(archive: Path, said: str, *, limits: Limits | None = None) -> None:
    target = archive.parent / "out"
    with pytest.raises(UsageError, match=said) as caught:
        unpack(archive, target, **({"limits": limits} if limits is not None else {}))
    assert str(archive) in str(caught.value)
    assert caught.value.remedy
    outside = {each.name for each in archive.parent.iterdir()} - {"out", archive.name}
    assert not outside


@pytest.mark.parametrize("below", ["", "ExecuTorch/", "some/where/ExecuTorch-1.0/"])
def test_a_library_is_found_wherever_it_lies(tmp_path: Path, below: str) -> None:
    archive = pack(tmp_path / "a.zip", GOOD, below=below)
    root = unpack(archive, tmp_path / "out")
    assert (root / "library.properties").read_bytes() == GOOD["library.properties"]
    assert (root / "src/ExecuTorch.h").is_file()


def test_what_macos_adds_is_left_out(tmp_path: Path) -> None:
    noise = {"__MACOSX/._library.properties": b"", "ExecuTorch/.DS_Store": b""}
    files = {f"ExecuTorch/{name}": content for name, content in GOOD.items()}
    root = unpack(pack(tmp_path / "a.zip", files | noise), tmp_path / "out")
    assert root == tmp_path / "out/ExecuTorch"
    assert not (root / ".DS_Store").exists()


def test_folder_entries_are_fine(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.mkdir("src")
        for name, content in GOOD.items():
            archive.writestr(name, content)
    assert unpack(tmp_path / "a.zip", tmp_path / "out") == tmp_path / "out"


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "src/../../evil",
        "/etc/evil",
        "C:/evil",
        "a\\b",
        "a//b",
        "./a",
        "new\nline",
        "a/.",
    ],
)
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    archive = pack(tmp_path / "a.zip", GOOD)
    with zipfile.ZipFile(archive, "a") as opened:
        member = zipfile.ZipInfo("x")
        member.filename = name
        opened.writestr(member, b"evil")
    refused(archive, "leaves its folder or is malformed")
    assert not (tmp_path / "out").exists()


def test_a_name_cut_short_by_a_null_is_refused(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.zip", {**GOOD, "src/nullXname": b""})
    archive.write_bytes(archive.read_bytes().replace(b"nullXname", b"null\0name"))
    refused(archive, "malformed")


@pytest.mark.parametrize(
    ("kind", "said"), [(stat.S_IFLNK, "a link"), (stat.S_IFIFO, "a special file")]
)
def test_links_and_special_files_are_refused(tmp_path: Path, kind: int, said: str) -> None:
    archive = pack(tmp_path / "a.zip", GOOD)
    with zipfile.ZipFile(archive, "a") as opened:
        member = zipfile.ZipInfo("src/link")
        member.create_system = 3
        member.external_attr = (kind | 0o777) << 16
        opened.writestr(member, b"/etc/passwd")
    refused(archive, said)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("src/a.h", "src/A.h"),
        ("src/x/a.h", "SRC/x/b.h"),
        ("src/stra\u00dfe.h", "src/STRASSE.h"),
        ("src/e\u0301.h", "src/\u00e9.h"),
        ("src/a", "src/a/b"),
    ],
)
def test_names_that_are_one_name_on_some_systems_are_refused(
    tmp_path: Path, one: str, two: str
) -> None:
    refused(pack(tmp_path / "a.zip", {**GOOD, one: b"", two: b""}), "one name on some systems")


@pytest.mark.filterwarnings("ignore:Duplicate name")  # zipfile warns of what this test makes
def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.zip", GOOD)
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr("src/ExecuTorch.h", b"other")
    refused(archive, "one name on some systems")


def test_too_many_entries_are_refused(tmp_path: Path) -> None:
    files = GOOD | {f"src/{number}.h": b"" for number in range(20)}
    refused(pack(tmp_path / "a.zip", files), "22 entries", limits=Limits(files=10))


def test_too_much_is_refused_while_unpacking(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.zip", {**GOOD, "src/big.h": bytes(5_000_000)})
    refused(archive, "more than 1000000 bytes", limits=Limits(total_bytes=1_000_000))


def test_a_bomb_is_refused_while_unpacking(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.zip", {**GOOD, "src/big.h": bytes(5_000_000)})
    refused(archive, "100 times its own size", limits=Limits(ratio_from_bytes=1_000_000))


def test_what_an_archive_says_of_its_sizes_is_not_believed(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.zip", {**GOOD, "src/big.h": bytes(5_000_000)})
    with zipfile.ZipFile(archive) as opened:
        told = opened.getinfo("src/big.h").file_size
    spoilt = archive.read_bytes().replace(told.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    archive.write_bytes(spoilt)
    refused(archive, "damaged|more than", limits=Limits(total_bytes=1_000_000))


def test_long_and_deep_names_are_refused(tmp_path: Path) -> None:
    refused(pack(tmp_path / "a.zip", {**GOOD, "a/" * 50 + "b": b""}), "holds a name of")
    refused(pack(tmp_path / "a.zip", {**GOOD, "b" * 2000: b""}), "holds a name of 2000")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip", bytes(1000)])
def test_what_is_no_zip_is_said(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", "damaged or of an unknown kind")


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_STORED) as opened:
        for name, content in GOOD.items():
            opened.writestr(name, content)
    data = (tmp_path / "a.zip").read_bytes().replace(b"#pragma once", b"#pragma twic")
    (tmp_path / "a.zip").write_bytes(data)
    refused(tmp_path / "a.zip", "damaged")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.zip", GOOD)
    data = bytearray(archive.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(bytes(data))
    refused(archive, "encrypted")


def test_no_library_and_two_libraries_are_said(tmp_path: Path) -> None:
    refused(pack(tmp_path / "a.zip", {"readme.txt": b""}), "holds no library.properties")
    two = {f"{root}/{name}": content for root in "ab" for name, content in GOOD.items()}
    refused(pack(tmp_path / "a.zip", two), "several libraries: 'a', 'b'")


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no library"):
        unpack(tmp_path / "gone.zip", tmp_path / "out")
