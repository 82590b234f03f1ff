"""SHA-256 of bytes, files and trees, the same on every machine.

A tree's digest covers the sorted relative names and the content of its regular files; times,
owners and modes are no part of it.  Hashing a tree again can be spared by remembering what its
files' metadata looked like; :func:`remembered_digest` says when that is safe.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BenchError, UsageError
from harness.storage.atomic_file import write_atomically

NOT_CONTENT = frozenset({".git", "__pycache__", ".DS_Store"})
"""Names that are bookkeeping wherever they occur, and no part of a tree's content."""

_CLOCK_GRAIN_NS = 2_000_000_000
"""Coarsest time stamp of a file system in use (FAT): two changes within it can look alike."""


@dataclass(frozen=True)
class TreeFile:
    """One regular file of a tree: its name relative to the root, with ``/``, and where it is."""

    name: str
    path: Path
    stat: os.stat_result


def bytes_digest(data: bytes) -> str:
    """SHA-256 in lowercase hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def text_digest(text: str) -> str:
    """SHA-256 of a text's UTF-8 bytes."""
    return bytes_digest(text.encode("utf-8", "surrogatepass"))


def parts_digest(*parts: str) -> str:
    """Digest of several strings, each with its length, so that no two lists collide."""
    return text_digest("".join(f"{len(part)}:{part}" for part in parts))


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content; raises :class:`BenchError` when it cannot be read."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def tree_files(root: Path, *, skip: frozenset[str] = NOT_CONTENT) -> tuple[TreeFile, ...]:
    """The regular files below ``root``, sorted by name; a file is a tree of one, named ``.``.

    Links are followed.  ``skip`` names are left out at every depth; sockets, pipes, devices and
    links to nothing are no files.  Raises :class:`UsageError` on links that go in a circle and
    :class:`BenchError` when a folder cannot be read.
    """
    try:
        if not root.is_dir():
            return (TreeFile(".", root, root.stat()),)
        found = list(_walk(str(root), "", skip, (os.path.realpath(root),)))
    except OSError as error:
        raise _unreadable(root, error) from error
    return tuple(sorted(found, key=lambda each: each.name))


def _walk(
    folder: str, prefix: str, skip: frozenset[str], above: tuple[str, ...]
) -> Iterator[TreeFile]:
    with os.scandir(folder) as items:
        for item in items:
            if item.name in skip:
                continue
            name = prefix + item.name
            if item.is_dir():
                inner = above
                if item.is_symlink():
                    real = os.path.realpath(item.path)
                    if real in above or any(each.startswith(real + os.sep) for each in above):
                        raise UsageError(
                            f"the link {item.path!r} leads back to a folder that holds it",
                            remedy="remove the link",
                        )
                    inner = (*above, real)
                yield from _walk(item.path, name + "/", skip, inner)
                continue
            with suppress(FileNotFoundError):
                facts = item.stat()
                if stat.S_ISREG(facts.st_mode):
                    yield TreeFile(name, Path(item.path), facts)


def tree_digest(root: Path) -> str:
    """Digest of the names and content of the files that :func:`tree_files` finds at ``root``."""
    return files_digest(tree_files(root))


def files_digest(files: Iterable[TreeFile]) -> str:
    """Digest of names and content; the order of ``files`` does not matter."""
    total = hashlib.sha256()
    for each in sorted(files, key=lambda each: each.name):
        name = each.name.encode("utf-8", "surrogateescape")
        total.update(b"%d:%s=%s\n" % (len(name), name, file_digest(each.path).encode()))
    return total.hexdigest()


def metadata_digest(files: Iterable[TreeFile]) -> str:
    """Digest of what the file system says of each file: it changes whenever a file is written.

    The time of the last status change is part of it, which no program can set back.
    """
    total = hashlib.sha256()
    for each in sorted(files, key=lambda each: each.name):
        facts = each.stat
        total.update(
            f"{each.name}\0{each.path}\0{facts.st_size}\0{facts.st_mtime_ns}\0"
            f"{facts.st_ctime_ns}\0{facts.st_ino}\0{facts.st_dev}\n".encode(
                "utf-8", "surrogateescape"
            )
        )
    return total.hexdigest()


def remembered_digest(files: tuple[TreeFile, ...], memory: Path) -> str:
    """:func:`files_digest` of ``files``, or what ``memory`` says it was when nothing has changed.

    A memory is believed only when all metadata is equal and every file was last touched clearly
    before the hashing began; else a second change within one tick of the file system's clock would
    go unseen.  A memory that cannot be written only costs the next run its time.
    """
    metadata = metadata_digest(files)
    newest_ns = max((each.stat.st_ctime_ns for each in files), default=0)
    with suppress(OSError, ValueError, TypeError, KeyError):
        held = json.loads(memory.read_text(encoding="utf-8"))
        if held["metadata"] == metadata and newest_ns + _CLOCK_GRAIN_NS < int(held["began_ns"]):
            return str(held["digest"])
    began_ns = _file_clock_ns(memory)
    digest = files_digest(files)
    if began_ns is not None:
        record = {"metadata": metadata, "began_ns": began_ns, "digest": digest}
        with suppress(OSError):
            write_atomically(memory, json.dumps(record).encode())
    return digest


def _file_clock_ns(memory: Path) -> int | None:
    """The file system's own idea of now, in ns: the time of a file just written."""
    try:
        write_atomically(memory, b"{}")
        return memory.stat().st_mtime_ns
    except OSError:
        return None


def _unreadable(path: Path, error: OSError) -> BenchError:
    return BenchError(
        f"cannot read {str(error.filename or path)!r}: {error.strerror or error}",
        remedy="check that it exists and may be read by this user",
    )
