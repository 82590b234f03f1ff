"""Taking firmware over: check that it can be for this board, then keep a copy.

The builder may delete or rewrite its file at once.  A copy that fails half-way (disk full) leaves
the firmware that was there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from harness.errors import BenchError, ToolError

PIECE_BYTES = 1 << 20
MOST_BYTES = 512 << 20
"""Nothing the bench builds is near this; a larger file is a mistake."""

PT_LOAD = 1
NAMES = {40: "Arm", 62: "x86_64", 183: "aarch64", 243: "riscv64", 3: "x86", 94: "Xtensa"}


@dataclass(frozen=True)
class ElfKind:
    """What an ELF file must be: word size, ``e_machine`` and allowed ``e_type`` (ELF gABI)."""

    title: str
    bits: int
    machine: int
    types: tuple[int, ...]


ARM = ElfKind("Arm", bits=32, machine=40, types=(2,))


@dataclass(frozen=True)
class Firmware:
    """A copy the board owns: where, SHA-256 of its bytes, size in bytes."""

    path: Path
    sha256: str
    nbytes: int


def take(source: Path, folder: Path, kind: ElfKind) -> Firmware:
    """Copy ``source`` to ``folder/firmware.elf`` if it is whole and of ``kind``.

    Raises :class:`ToolError` for a file that is missing or wrong and :class:`BenchError` when it
    cannot be stored; the previous firmware then stays.
    """
    unfinished = folder / "firmware.new"
    kept = folder / "firmware.elf"
    try:
        digest, nbytes = _copy(source, unfinished)
        with unfinished.open("rb") as file:
            if problem := elf_problem(file, nbytes, kind):
                raise ToolError(
                    f"{str(source)!r} cannot be flashed: {problem}",
                    remedy="build the sketch again for this board's FQBN",
                )
        unfinished.chmod(0o700)
        unfinished.replace(kept)
    except OSError as error:
        raise BenchError(
            f"the firmware could not be stored in {str(folder)!r}: {error.strerror}",
            remedy="free space there; the board keeps the firmware it had",
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return Firmware(kept, digest, nbytes)


def _copy(source: Path, target: Path) -> tuple[str, int]:
    digest = hashlib.sha256()
    try:
        # Not blocking: a named pipe would hold the board up for ever.
        incoming = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unreadable(source, str(reason)) from error
    facts = os.fstat(incoming)
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
        os.close(incoming)
        regular = stat.S_ISREG(facts.st_mode)
        reason = f"larger than {MOST_BYTES} bytes" if regular else "not a regular file"
        raise _unreadable(source, reason)
    with os.fdopen(incoming, "rb") as reader:
        nbytes = 0
        with target.open("wb") as writer:
            while piece := _read(reader, source):
                digest.update(piece)
                writer.write(piece)
                nbytes += len(piece)
    return digest.hexdigest(), nbytes


def _read(reader: BinaryIO, source: Path) -> bytes:
    try:
        return reader.read(PIECE_BYTES)
    except OSError as error:
        raise _unreadable(source, str(error.strerror)) from error


def _unreadable(source: Path, reason: str) -> ToolError:
    return ToolError(
        f"the firmware {str(source)!r} cannot be read: {reason}",
        remedy="build the sketch again and give the path of its .elf file",
    )


def elf_problem(file: BinaryIO, nbytes: int, kind: ElfKind) -> str | None:
    """Why the ``nbytes`` of ``file`` are not a whole ELF of ``kind``, in a few words, or None."""
    head = file.read(64)
    if head[:4] != b"\x7fELF":
        return "it is empty" if not head else "it is not an ELF file"
    bits = {1: 32, 2: 64}.get(head[4] if len(head) > 4 else 0)
    if bits is None or len(head) < (52 if bits == 32 else 64):
        return "its ELF header is cut off"
    if head[5] != 1:
        return "it is big-endian"
    e_type, machine = struct.unpack_from("<HH", head, 16)
    if (bits, machine) != (kind.bits, kind.machine):
        found = NAMES.get(machine, f"machine {machine}")
        return f"it is a {bits}-bit {found} program and this board runs {kind.title}"
    if e_type not in kind.types:
        return "it is an object file, not a linked program" if e_type == 1 else "it does not run"
    form = "<IIIHHHHHH" if bits == 32 else "<QQIHHHHHH"
    phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, _ = struct.unpack_from(
        form, head, 28 if bits == 32 else 32
    )
    if phoff + phentsize * phnum > nbytes or shoff + shentsize * shnum > nbytes:
        return "it is truncated"
    return _segment_problem(file, nbytes, bits, phoff, phentsize, phnum)


def _segment_problem(
    file: BinaryIO, nbytes: int, bits: int, phoff: int, phentsize: int, phnum: int
) -> str | None:
    if phentsize < (32 if bits == 32 else 56):
        return "it has nothing to load"
    loads = 0
    for number in range(phnum):
        file.seek(phoff + number * phentsize)
        entry = file.read(phentsize)
        if bits == 32:
            p_type, offset, _, _, filesz = struct.unpack_from("<5I", entry)
        else:
            p_type, _, offset, _, _, filesz = struct.unpack_from("<2I4Q", entry)
        if p_type != PT_LOAD:
            continue
        loads += 1
        if offset + filesz > nbytes:
            return "it is truncated"
    return None if loads else "it has nothing to load"
