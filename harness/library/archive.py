"""A built library that arrives as a zip file from somewhere: unpacked, trusting nothing in it."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from harness.errors import UsageError
from harness.storage.unzip import Archive, Limits, unzip

__all__ = ["DEFAULT_LIMITS", "MARK", "Limits", "unpack"]

MARK = "library.properties"

DEFAULT_LIMITS = Limits()
"""The real library has 700 files in 7 MB."""

_REPACK = "pack the library again, from the folder the library script made"
_LIBRARY = "pack the folder ExecuTorch that build_arduino_library.sh makes"


def unpack(archive: Path, target: Path, *, limits: Limits = DEFAULT_LIMITS) -> Path:
    """Unpack ``archive`` into the new folder ``target``; returns the folder of the library.

    That folder is found by its ``library.properties``, which may lie below other folders but must
    be the only one at its depth.  Raises :class:`UsageError` on anything else: a name that leaves
    the folder, a link, names that differ only in case, too much, damaged, encrypted.
    """
    opened = Archive(archive, "the library archive", _REPACK)
    roots: list[PurePosixPath] = []

    def find_root(members: Sequence[zipfile.ZipInfo]) -> None:
        roots.append(_root(opened, members))

    try:
        unzip(opened, target, limits=limits, inspect=find_root)
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no library at {str(archive)!r}", remedy="check the path after --library"
        ) from error
    return target / roots[0]


def _root(archive: Archive, members: Sequence[zipfile.ZipInfo]) -> PurePosixPath:
    marks = [
        PurePosixPath(member.filename).parent
        for member in members
        if not member.is_dir() and PurePosixPath(member.filename).name == MARK
    ]
    if not marks:
        raise archive.refused(f"holds no {MARK}, so it is no Arduino library", _LIBRARY)
    least = min(len(mark.parts) for mark in marks)
    roots = [mark for mark in marks if len(mark.parts) == least]
    if len(roots) > 1:
        names = ", ".join(repr(str(root)) for root in roots)
        raise archive.refused(f"holds several libraries: {names}", "pack the one to test alone")
    return roots[0]
