"""Whether an object was written to its end: what a compile that was cut short leaves behind."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from harness.arduino.elf import is_whole, last_bytes
from harness.errors import ToolError
from tests.unit.small_elf import arm_elf


def elf32(*, at: int, count: int = 3) -> bytes:
    head = bytearray(b"\x7fELF\x01\x01\x01" + bytes(45))
    struct.pack_into("<I", head, 32, at)
    struct.pack_into("<HH", head, 46, 40, count)
    return bytes(head)


def elf64(*, at: int, count: int = 3) -> bytes:
    head = bytearray(b"\x7fELF\x02\x01\x01" + bytes(57))
    struct.pack_into("<Q", head, 40, at)
    struct.pack_into("<HH", head, 58, 64, count)
    return bytes(head)


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (elf32(at=100) + bytes(48 + 120), True),
        (elf32(at=100) + bytes(48 + 119), False),
        (elf32(at=0) + bytes(1000), False),
        (elf64(at=100) + bytes(36 + 192), True),
        (elf64(at=100) + bytes(36 + 191), False),
        (b"", False),
        (b"\x7fELF", False),
        (b"not an object " * 9, False),
    ],
)
def test_an_object_is_whole_when_its_section_headers_are_there(
    tmp_path: Path, content: bytes, whole: bool
) -> None:
    path = tmp_path / "a.o"
    path.write_bytes(content)
    assert is_whole(path) is whole


def test_no_file_is_not_whole(tmp_path: Path) -> None:
    assert not is_whole(tmp_path / "absent.o")


def test_the_end_of_an_image_is_that_of_its_program(tmp_path: Path) -> None:
    path = tmp_path / "a.elf"
    path.write_bytes(arm_elf(bytes(range(100)), {"f": (0x10000000, 4)}))
    assert last_bytes(path, 16) == (0x10000000 + 84, bytes(range(84, 100)))
    assert last_bytes(path, 1000) == (0x10000000, bytes(range(100)))


def test_an_image_without_a_program_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "a.o"
    path.write_bytes(arm_elf(b"", {}))
    assert last_bytes(path, 16) == (0, b"")
    path.write_bytes(b"no ELF")
    with pytest.raises(ToolError, match="is not a readable ELF"):
        last_bytes(path, 16)
