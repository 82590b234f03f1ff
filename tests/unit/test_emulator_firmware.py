import hashlib
import io
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.emulator import firmware, native
from harness.errors import BenchError, ToolError


def arm_elf(*, machine: int = 40, e_type: int = 2, payload: bytes = b"code" * 8) -> bytes:
    """The smallest ELF with one segment; no section table, as strip leaves it."""
    header = b"\x7fELF\x01\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIIIIIHHHHHH", e_type, machine, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0
    )
    segment = struct.pack("<8I", 1, 84, 0, 0, len(payload), len(payload), 5, 4)
    return header + segment + payload


def problem(data: bytes) -> str | None:
    return firmware.elf_problem(io.BytesIO(data), len(data), firmware.ARM)


def test_whole_program_is_taken_and_outlives_its_source(tmp_path: Path) -> None:
    source = tmp_path / "sketch.elf"
    source.write_bytes(arm_elf())
    image = firmware.take(source, tmp_path, firmware.ARM)
    source.unlink()
    assert image.path.read_bytes() == arm_elf()
    assert image.sha256 == hashlib.sha256(arm_elf()).hexdigest()
    assert image.nbytes == len(arm_elf())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\x7fELF", "header is cut off"),
        (b"not a program at all", "not an ELF file"),
        (arm_elf()[:60], "truncated"),
        (arm_elf()[:-1], "truncated"),
        (arm_elf(machine=62), "32-bit x86_64 program and this board runs Arm"),
        (arm_elf(e_type=1), "object file"),
        (arm_elf(e_type=4), "does not run"),
        (arm_elf()[:5] + b"\x02" + arm_elf()[6:], "big-endian"),
    ],
)
def test_wrong_file_is_named(data: bytes, words: str) -> None:
    assert words in str(problem(data))


def test_bench_python_is_a_native_program_and_no_arm_one() -> None:
    data = Path("/proc/self/exe").read_bytes()
    assert firmware.elf_problem(io.BytesIO(data), len(data), native.elf_kind()) is None
    assert "runs Arm" in str(problem(data))


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(tail: bytes) -> None:
    for data in (tail, b"\x7fELF" + tail, arm_elf()[:16] + tail, arm_elf()[:52] + tail):
        firmware.elf_problem(io.BytesIO(data), len(data), firmware.ARM)


def test_refused_file_leaves_the_old_firmware(tmp_path: Path) -> None:
    (tmp_path / "firmware.elf").write_bytes(b"old")
    wrong = tmp_path / "wrong.elf"
    wrong.write_bytes(b"garbage")
    with pytest.raises(ToolError, match="cannot be flashed: it is not an ELF file"):
        firmware.take(wrong, tmp_path, firmware.ARM)
    assert (tmp_path / "firmware.elf").read_bytes() == b"old"
    assert not (tmp_path / "firmware.new").exists()


def test_missing_file_folder_and_pipe_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for source in (tmp_path / "absent.elf", tmp_path, pipe, Path("nul\0.elf")):
        with pytest.raises(ToolError, match="cannot be read"):
            firmware.take(source, tmp_path, firmware.ARM)


@contextmanager
def largest_file(nbytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_full_disk_leaves_the_old_firmware(tmp_path: Path) -> None:
    (tmp_path / "firmware.elf").write_bytes(b"old")
    source = tmp_path / "sketch.elf"
    source.write_bytes(arm_elf(payload=b"c" * 65536))
    with largest_file(4096), pytest.raises(BenchError, match="could not be stored") as caught:
        firmware.take(source, tmp_path, firmware.ARM)
    assert "keeps the firmware it had" in caught.value.remedy
    assert (tmp_path / "firmware.elf").read_bytes() == b"old"
    assert not (tmp_path / "firmware.new").exists()
