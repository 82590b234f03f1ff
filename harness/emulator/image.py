"""The image that an upload writes to the stand-in's flash, and the ELF that QEMU starts from it.

Sixteen bytes of header, our own and made by the stand-in's build: ``HILZSK1`` and a zero, then the
payload's size and CRC-32, little-endian; then the sketch as it lies at the start of the flash.
"""

from __future__ import annotations

import struct
import zlib

MAGIC = b"HILZSK1\0"
HEADER_BYTES = 16

FLASH_BASE = 0x10000000
"""Where the emulated chip's flash begins (QEMU's mps2-an505)."""

RAM_BASE = 0x38000000
MEMORY_BYTES = 4 << 20
"""Size of either (hw/arm/mps2-tz.c)."""

ERASED = b"\xff"

ELF_HEADER_BYTES, SEGMENT_HEADER_BYTES = 52, 32
EM_ARM, PT_LOAD, READ_EXECUTE = 40, 1, 5
EABI5 = 0x05000000


def header_problem(image: bytes) -> str | None:
    """Why a loader would not start ``image``, in a few words, or None."""
    if len(image) < HEADER_BYTES or image[:8] != MAGIC:
        return "Invalid sketch header"
    nbytes, crc = struct.unpack_from("<II", image, 8)
    if nbytes != len(image) - HEADER_BYTES or crc != zlib.crc32(image[HEADER_BYTES:]):
        return "Failed to load sketch, rc -12"
    return None


def with_header(payload: bytes) -> bytes:
    """The image of ``payload``."""
    return MAGIC + struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def payload_of(image: bytes) -> bytes:
    """The sketch as it lies in the emulated flash."""
    return image[HEADER_BYTES:]


def as_elf(payload: bytes) -> bytes:
    """``payload`` as an Arm ELF with one segment at :data:`FLASH_BASE` (ELF gABI, 32 bit)."""
    entry = struct.unpack_from("<I", payload, 4)[0] if len(payload) >= 8 else FLASH_BASE
    offset = ELF_HEADER_BYTES + SEGMENT_HEADER_BYTES
    ident = b"\x7fELF" + bytes((1, 1, 1)) + bytes(9)
    head = ident + struct.pack(
        "<HHIIIIIHHHHHH",
        2, EM_ARM, 1, entry, ELF_HEADER_BYTES, 0, EABI5,
        ELF_HEADER_BYTES, SEGMENT_HEADER_BYTES, 1, 40, 0, 0,
    )  # fmt: skip
    segment = struct.pack(
        "<8I",
        PT_LOAD, offset, FLASH_BASE, FLASH_BASE, len(payload), len(payload), READ_EXECUTE, 4,
    )  # fmt: skip
    return head + segment + payload
