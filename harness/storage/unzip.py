"""Unpacking a zip file that came from somewhere, trusting nothing in it.

Names are judged before anything is written, and bytes are counted as they come out, since what an
archive says of its own sizes is no more than a claim.
"""

from __future__ import annotations

import re
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.errors import UsageError

_NOISE = ("__MACOSX/",)
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What an archive may be at most.

    ``ratio`` is unpacked to packed bytes of the whole, judged above ``ratio_from_bytes``.
    """

    files: int = 20_000
    total_bytes: int = 512 * 1024 * 1024
    ratio: int = 100
    ratio_from_bytes: int = 16 * 1024 * 1024
    name_bytes: int = 1024
    depth: int = 40


@dataclass(frozen=True)
class Archive:
    """A zip file and what messages call it: ``the library archive``.

    ``repack`` is the remedy where it was packed in a way that cannot be taken.
    """

    path: Path
    what: str
    repack: str

    def refused(self, problem: str, remedy: str) -> UsageError:
        """The error for an archive that is not unpacked."""
        return UsageError(f"{self.what} {str(self.path)!r} {problem}", remedy=remedy)


class ArchiveDamaged(UsageError):
    """What is in the file is not a zip archive, or not all of one.

    Cause: a transfer that broke off, or another kind of file.  Remedy: fetch it again.
    """


NOT_ORDINARY = "do not use this archive: no ordinary program packs such a name"


def unzip(
    archive: Archive,
    target: Path,
    *,
    limits: Limits,
    inspect: Callable[[Sequence[zipfile.ZipInfo]], None] = lambda members: None,  # noqa: ARG005
) -> None:
    """Unpack into the new folder ``target``.

    ``inspect`` may refuse by what the members are called, before anything is written.  Raises
    :class:`UsageError` on a name that leaves the folder, a link, names that differ only in case,
    too much, a damaged or an encrypted archive, and :class:`FileNotFoundError`.
    """
    try:
        with zipfile.ZipFile(archive.path) as opened:
            members = [each for each in opened.infolist() if not _noise(each.filename)]
            _inspect(archive, members, limits)
            inspect(members)
            _extract(archive, opened, members, target, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise ArchiveDamaged(
            f"{archive.what} {str(archive.path)!r} is damaged or of an unknown kind: {error}",
            remedy="download or pack it again",
        ) from error


def _noise(name: str) -> bool:
    return name.startswith(_NOISE) or PurePosixPath(name).name == ".DS_Store"


def _inspect(archive: Archive, members: Sequence[zipfile.ZipInfo], limits: Limits) -> None:
    if len(members) > limits.files:
        raise archive.refused(
            f"holds {len(members)} entries, more than {limits.files}", archive.repack
        )
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
                raise archive.refused(
                    f"holds both {before[0]!r} and {name!r}, one name on some systems",
                    archive.repack,
                )


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _inspect_name(archive: Archive, member: zipfile.ZipInfo, limits: Limits) -> None:
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
        raise archive.refused(
            f"holds the name {name!r}, which leaves its folder or is malformed", NOT_ORDINARY
        )
    if len(name.encode("utf-8", "replace")) > limits.name_bytes or len(parts) > limits.depth:
        raise archive.refused(
            f"holds a name of {len(name)} characters: {name[:60]!r}...", NOT_ORDINARY
        )


def _inspect_kind(archive: Archive, member: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        what = "a link" if kind == stat.S_IFLNK else "a special file"
        raise archive.refused(f"holds {what}, {member.filename!r}", "pack files and folders only")
    if (kind == stat.S_IFDIR) != member.is_dir() and kind:
        raise archive.refused(
            f"calls {member.filename!r} a folder and a file at once", NOT_ORDINARY
        )
    if member.flag_bits & 0x1:
        raise archive.refused("is encrypted", "pack it without a password")


def _extract(
    archive: Archive,
    opened: zipfile.ZipFile,
    members: Sequence[zipfile.ZipInfo],
    target: Path,
    limits: Limits,
) -> None:
    packed_bytes = max(1, archive.path.stat().st_size)
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
                    raise archive.refused(
                        f"unpacks to more than {limits.total_bytes} bytes", archive.repack
                    )
                ratio = total_bytes / packed_bytes
                if total_bytes > limits.ratio_from_bytes and ratio > limits.ratio:
                    raise archive.refused(
                        f"unpacks to over {limits.ratio} times its own size", archive.repack
                    )
                copy.write(piece)
