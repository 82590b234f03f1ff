"""The library under test: from a checkout, a folder, a zip, or the executorch wheel.

Whichever it is, what comes out is an Arduino library's root with its provenance.  A tree that is
the user's is read and never changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.boards.board import Lane
from harness.errors import BenchError, UsageError
from harness.library import provenance as records
from harness.library.archive import MARK, unpack
from harness.library.assemble import LIBRARY_FOLDER, PROVENANCE_FILE, build_from_checkout
from harness.library.checkout import open_checkout
from harness.library.provenance import Exporter, LibraryProvenance, Origin, read_exporter
from harness.library.wheel import build_from_wheel
from harness.paths import cache_dir
from harness.storage.cache import entry
from harness.storage.digest import (
    bytes_digest,
    parts_digest,
    remembered_digest,
    tree_digest,
    tree_files,
)

HEADER = "src/ExecuTorch.h"


@dataclass(frozen=True)
class Library:
    """An Arduino library's root (``library.properties``, ``src/``, ``examples/``) and its record.

    ``name`` is the one in its properties; ``examples`` are the names of its example sketches.
    """

    path: Path
    name: str
    provenance: LibraryProvenance
    examples: tuple[str, ...]


def resolve_library(
    *,
    executorch: Path | None,
    library: Path | None,
    root_ops: str | None,
    all_ops: bool,
    lane: Lane,
    progress: Callable[[str], None],
) -> Library | None:
    """The library under test, or None where nothing was named and the lane needs the real one.

    ``library`` (a folder or a zip) goes before ``executorch`` (a checkout); with neither, the host
    lane has the wheel's runtime.  What does not match is said through ``progress``.  Raises
    :class:`UsageError` when what was named is not such a thing, and the errors of
    :func:`harness.library.assemble.build_from_checkout`.
    """
    if (root_ops is not None or all_ops) and (library is not None or executorch is None):
        raise UsageError(
            "--root-ops and --all-ops choose what a checkout's library is built with, and"
            + (" this one is built already" if library is not None else " there is no checkout"),
            remedy="give --executorch DIR and no --library",
        )
    if library is not None:
        found = _from_folder(library) if library.is_dir() else _from_zip(library, progress)
    elif executorch is not None:
        place = build_from_checkout(
            open_checkout(executorch), root_ops=root_ops, all_ops=all_ops, progress=progress
        )
        found = _from_entry(place)
    elif lane is Lane.HOST:
        return _from_entry(build_from_wheel(progress=progress))
    else:
        return None
    for said in (
        exporter_mismatch(found, found.provenance.exporter),
        records.schema_mismatch(found.provenance),
    ):
        if said is not None:
            progress(said)
    return found


def exporter_mismatch(library: Library, exporter: Exporter) -> str | None:
    """One sentence with both revisions where models and library are of different ones."""
    return records.exporter_mismatch(library.provenance, exporter)


def _from_entry(folder: Path) -> Library:
    try:
        plain = json.loads((folder / PROVENANCE_FILE).read_text(encoding="utf-8"))
        provenance = records.from_json(plain)
    except (OSError, ValueError) as error:
        raise BenchError(
            f"the cached library {str(folder)!r} has no readable provenance: {error}",
            remedy=f"remove it: rm -r {folder}",
        ) from error
    return _library(folder / LIBRARY_FOLDER, provenance)


def _from_folder(folder: Path) -> Library:
    root = Path(os.path.abspath(folder))  # noqa: PTH100  # the user's name for it, links kept
    _require_library(root, str(folder))
    name = bytes_digest(os.fsencode(root))[:24]
    digest = remembered_digest(tree_files(root), cache_dir() / "digest" / f"{name}.json")
    return _library(root, _told(root, "folder", digest, read_exporter()))


def _from_zip(archive: Path, progress: Callable[[str], None]) -> Library:
    if not archive.is_file():
        raise UsageError(
            f"there is no library at {str(archive)!r}", remedy="check the path after --library"
        )
    content = remembered_digest(
        tree_files(archive),
        cache_dir() / "digest" / f"{bytes_digest(os.fsencode(archive.absolute()))[:24]}.json",
    )
    exporter = read_exporter()

    def make(folder: Path) -> None:
        progress(f"unpacking {archive}")
        staging = folder / "unpacked"
        root = unpack(archive, staging)
        _require_library(root, str(archive))
        root.rename(folder / LIBRARY_FOLDER)
        # What else the archive held beside the library is not kept.
        shutil.rmtree(staging, ignore_errors=True)
        library = folder / LIBRARY_FOLDER
        provenance = _told(library, "zip", tree_digest(library), exporter)
        (folder / PROVENANCE_FILE).write_text(
            json.dumps(records.to_json(provenance), indent=1), encoding="utf-8"
        )

    key = parts_digest("zip", content, json.dumps(vars(exporter), sort_keys=True))
    return _from_entry(entry("library", key, make, progress=progress))


def _require_library(root: Path, named: str) -> None:
    if (root / MARK).is_file() and (root / HEADER).is_file():
        return
    inner = [each for each in sorted(root.iterdir()) if (each / MARK).is_file()]
    remedy = (
        f"give {inner[0]} instead"
        if inner
        else "give the folder ExecuTorch that build_arduino_library.sh makes; for a checkout use"
        " --executorch"
    )
    missing = MARK if not (root / MARK).is_file() else HEADER
    raise UsageError(
        f"{named!r} is not the ExecuTorch Arduino library: it has no {missing}", remedy=remedy
    )


def _library(root: Path, provenance: LibraryProvenance) -> Library:
    folder = root / "examples"
    examples = (
        [each.name for each in folder.iterdir() if (each / f"{each.name}.ino").is_file()]
        if folder.is_dir()
        else []
    )
    return Library(
        path=root,
        name=records.read_properties(root).get("name", "unknown"),
        provenance=provenance,
        examples=tuple(sorted(examples)),
    )


def _told(root: Path, origin: Origin, digest: str, exporter: Exporter) -> LibraryProvenance:
    """The provenance of a library that was built elsewhere: what it says of itself."""
    record = records.read_record(root)
    return LibraryProvenance(
        origin=origin,
        commit=record.commit,
        dirty=record.dirty,
        op_set=record.op_set,
        kernels=record.kernels,
        max_kernels=record.max_kernels,
        exporter=exporter,
        flatc_version=None,
        flatbuffers_version=record.flatbuffers_version,
        schema_source="library",
        version=record.version,
        pin=record.pin,
        provenance_text=record.provenance_text,
        digest=digest,
    )
