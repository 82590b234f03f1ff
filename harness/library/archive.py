"""A built library that arrives as a zip file from somewhere: unpack it, trusting nothing in it.

Names are judged before anything is written, and bytes are counted as they come out, since what an
archive says of its own sizes is no more than a claim.
"""

from __future__ import annotations

import re
import stat
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NoReturn

from harness.errors import UsageError

MARK = "library.properties"
_NOISE = ("__MACOSX/",)
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a library may be at most; the real one has 700 files in 7 MB.

    ``ratio`` is unpacked to packed bytes of the whole, judged above ``ratio_from_bytes``.
    """

    files: int = 20_000
    total_bytes: int = 512 * 1024 * 1024
    ratio: int = 100
    ratio_from_bytes: int = 16 * 1024 * 1024
    name_bytes: int = 1024
    depth: int = 40


DEFAULT_LIMITS = Limits()


def unpack(archive: Path, target: Path, *, limits: Limits = DEFAULT_LIMITS) -> Path:
    """Unpack ``archive`` into the new folder ``target``; returns the folder of the library.

    That folder is found by its ``library.properties``, which may lie below other folders but must
    be the only one at its depth.  Raises :class:`UsageError` on anything else: a name that leaves
    the folder, a link, names that differ only in case, too much, damaged, encrypted.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [each for each in opened.infolist() if not _noise(each.filename)]
            root = _inspect(archive, members, limits)
            _extract(archive, opened, members, target, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        _refuse(archive, f"is damaged or of an unknown kind: {error}", "download or pack it again")
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no library at {str(archive)!r}", remedy="check the path after --library"
        ) from error
    return target / root


def _noise(name: str) -> bool:
    return name.startswith(_NOISE) or PurePosixPath(name).name == ".DS_Store"


def _inspect(archive: Path, members: list[zipfile.ZipInfo], limits: Limits) -> PurePosixPath:
    if len(members) > limits.files:
        _refuse(archive, f"holds {len(members)} entries, more than {limits.files}", _REPACK)
    seen: dict[str, tuple[str, bool]] = {}
    for member in members:
        _inspect_name(archive, member, limits)
        _inspect_kind(archive, member)
        parts = PurePosixPath(member.filename).parts
        for depth in range(1, len(parts) + 1):
            name, last = "/".join(parts[:depth]), depth == len(parts)
            this = (name, member.is_dir() or not last)
            before = seen.get(_folded(name))
            if before is None:
                seen[_folded(name)] = this
            elif before != this or (last and not member.is_dir()):
                _refuse(
                    archive,
                    f"holds both {before[0]!r} and {name!r}, one name on some systems",
                    _REPACK,
                )
    return _root(archive, members)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _inspect_name(archive: Path, member: zipfile.ZipInfo, limits: Limits) -> None:
    # orig_filename is what the archive says; filename has been cut at NUL and normalised.
    name = member.orig_filename
    parts = name.rstrip("/").split("/")
    if (
        not name.strip("/")
        or name.startswith("/")
        or re.match(r"[A-Za-z]:", name)
        or any(part in ("", ".", "..") for part in parts)
        or re.search(r"[\x00-\x1f\x7f\\]", name)
    ):
        _refuse(archive, f"holds the name {name!r}, which leaves its folder or is malformed", _NOT)
    if len(name.encode("utf-8", "replace")) > limits.name_bytes or len(parts) > limits.depth:
        _refuse(archive, f"holds a name of {len(name)} characters: {name[:60]!r}...", _NOT)


def _inspect_kind(archive: Path, member: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a link" if kind == stat.S_IFLNK else "a special file"
        _refuse(archive, f"holds {what}, {member.filename!r}", "pack files and folders only")
    if (kind == stat.S_IFDIR) != member.is_dir() and kind:
        _refuse(archive, f"calls {member.filename!r} a folder and a file at once", _NOT)
    if member.flag_bits & 0x1:
        _refuse(archive, "is encrypted", "pack it without a password")


def _root(archive: Path, members: list[zipfile.ZipInfo]) -> PurePosixPath:
    marks = [
        PurePosixPath(member.filename).parent
        for member in members
        if not member.is_dir() and PurePosixPath(member.filename).name == MARK
    ]
    if not marks:
        _refuse(archive, f"holds no {MARK}, so it is no Arduino library", _LIBRARY)
    least = min(len(mark.parts) for mark in marks)
    roots = [mark for mark in marks if len(mark.parts) == least]
    if len(roots) > 1:
        names = ", ".join(repr(str(root)) for root in roots)
        _refuse(archive, f"holds several libraries: {names}", "pack the one to test alone")
    return roots[0]


def _extract(
    archive: Path,
    opened: zipfile.ZipFile,
    members: list[zipfile.ZipInfo],
    target: Path,
    limits: Limits,
) -> None:
    packed_bytes = max(1, archive.stat().st_size)
    total_bytes = 0
    for member in members:
        place = target / member.filename
        if member.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with opened.open(member) as source, place.open("xb") as copy:
            while piece := source.read(_PIECE_BYTES):
                total_bytes += len(piece)
                if total_bytes > limits.total_bytes:
                    _refuse(archive, f"unpacks to more than {limits.total_bytes} bytes", _REPACK)
                ratio = total_bytes / packed_bytes
                if total_bytes > limits.ratio_from_bytes and ratio > limits.ratio:
                    _refuse(archive, f"unpacks to over {limits.ratio} times its own size", _REPACK)
                copy.write(piece)


_REPACK = "pack the library again, from the folder the library script made"
_NOT = "do not use this archive: no ordinary program packs such a name"
_LIBRARY = "pack the folder ExecuTorch that build_arduino_library.sh makes"


def _refuse(archive: Path, problem: str, remedy: str) -> NoReturn:
    raise UsageError(f"the library archive {str(archive)!r} {problem}", remedy=remedy)
