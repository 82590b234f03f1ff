"""Which library is taken, from a folder or a zip, and what is said when it is none."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from harness.boards.board import Lane
from harness.errors import UsageError
from harness.library.resolve import Library, resolve_library

COMMIT = "c" * 40


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A built library."""
    root = tmp_path / "libraries" / "ExecuTorch"
    (root / "src").mkdir(parents=True)
    (root / "extras").mkdir()
    (root / "examples/Hello").mkdir(parents=True)
    (root / "examples/notes").mkdir()
    (root / "examples/Hello/Hello.ino").write_text("", encoding="utf-8")
    (root / "library.properties").write_text("name=ExecuTorch\nversion=0.2.0\n", encoding="utf-8")
    (root / "src/ExecuTorch.h").write_text("#pragma once\n", encoding="utf-8")
    (root / "extras/PROVENANCE.txt").write_text(f"commit: {COMMIT}\n", encoding="utf-8")
    return root


def resolve(
    library: Path | None,
    *,
    executorch: Path | None = None,
    lane: Lane = Lane.EMULATED,
    root_ops: str | None = None,
) -> Library | None:
    return resolve_library(
        executorch=executorch,
        library=library,
        root_ops=root_ops,
        all_ops=False,
        lane=lane,
        progress=lambda line: None,  # noqa: ARG005
    )


@pytest.mark.parametrize("lane", [Lane.EMULATED, Lane.HARDWARE])
def test_nothing_named_is_nothing_found(lane: Lane) -> None:
    assert resolve(None, lane=lane) is None


def test_a_folder_is_used_where_it_is(folder: Path, tmp_path: Path) -> None:
    before = sorted(folder.rglob("*"))
    library = resolve(folder, executorch=tmp_path / "not looked at")
    assert library is not None
    assert library.path == folder
    assert library.name == "ExecuTorch"
    assert library.examples == ("Hello",)
    assert library.provenance.origin == "folder"
    assert library.provenance.commit == COMMIT
    assert library.provenance.version == "0.2.0"
    assert sorted(folder.rglob("*")) == before


def test_a_changed_folder_has_another_digest(folder: Path) -> None:
    first = resolve(folder)
    (folder / "src/ExecuTorch.h").write_text("#pragma twice\n", encoding="utf-8")
    second = resolve(folder)
    assert first is not None
    assert second is not None
    assert first.provenance.digest != second.provenance.digest


@pytest.mark.parametrize("below", ["", "ExecuTorch", "a/b"])
def test_a_zip_is_unpacked_once_and_equals_its_folder(
    folder: Path, tmp_path: Path, below: str
) -> None:
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("a note beside it.txt", "note")
        for path in sorted(folder.rglob("*")):
            opened.write(path, Path(below) / path.relative_to(folder))
    if not below:
        (folder / "a note beside it.txt").write_text("note", encoding="utf-8")
    library, again, plain = resolve(archive), resolve(archive), resolve(folder)
    assert library is not None
    assert plain is not None
    assert library == again
    assert library.path.name == "ExecuTorch"
    assert library.provenance.origin == "zip"
    assert library.provenance.digest == plain.provenance.digest
    assert sorted(each.name for each in library.path.parent.iterdir()) == [
        ".entry.json",
        "ExecuTorch",
        "provenance.json",
    ]


def test_a_folder_above_the_library_is_said(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"has no library\.properties") as caught:
        resolve(folder.parent)
    assert f"give {folder} instead" in caught.value.remedy


def test_another_library_is_said(folder: Path) -> None:
    (folder / "src/ExecuTorch.h").unlink()
    with pytest.raises(UsageError, match=r"has no src/ExecuTorch\.h"):
        resolve(folder)


def test_a_zip_of_another_library_is_said(folder: Path, tmp_path: Path, cache: Path) -> None:
    (folder / "src/ExecuTorch.h").unlink()
    archive = shutil.make_archive(str(tmp_path / "other"), "zip", folder)
    with pytest.raises(UsageError, match=r"other\.zip' is not the ExecuTorch Arduino library"):
        resolve(Path(archive))
    assert [each.suffix for each in (cache / "library").iterdir()] == [".lock"]


def test_a_path_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no library at"):
        resolve(tmp_path / "gone")


@pytest.mark.parametrize("built", [True, False])
def test_operators_without_a_checkout_are_said(folder: Path, built: bool) -> None:
    with pytest.raises(UsageError, match="built already" if built else "there is no checkout"):
        resolve(folder if built else None, root_ops="aten::add.out")
