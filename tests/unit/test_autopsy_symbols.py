"""What stands at an address: symbol tables made by hand, whole, stripped and damaged."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import pytest

from harness.autopsy import symbols
from harness.autopsy.symbols import NONCE_SYMBOL, demangled, load_symbols, read_symbols
from tests.unit.small_elf import arm_elf

BASE = 0x10000000
NONCE = b"0123456789abcdef"
# At 0x10: "bl" (4 bytes), at 0x14 "blx r3", at 0x18 the nonce.
CODE = bytes(16) + struct.pack("<HH", 0xF7FF, 0xFFF6) + struct.pack("<H", 0x4798) + bytes(2)
ELF = arm_elf(
    CODE + NONCE + b"\0\0\0\0",
    {"_Z11read_sensorv": (BASE + 1, 16), "loop": (BASE + 0x11, 8), "asm_end": (BASE + 0x2C, 0)},
    data={NONCE_SYMBOL: (BASE + 0x18, 17)},
)


def test_an_address_has_its_function_and_offset() -> None:
    found = read_symbols(ELF, "a.elf")
    assert found.problem is None
    assert str(found.place(BASE + 4)) == "_Z11read_sensorv+0x4"
    # Bit 0 marks Thumb code and is no part of the address.
    assert str(found.place(BASE + 5)) == "_Z11read_sensorv+0x4"
    assert found.place(BASE + 0x11).function == "loop"
    assert found.place(BASE + 0x11).offset == 0


@pytest.mark.parametrize("address", [0, BASE - 2, BASE + 0x1A, 0x20000000, 0xFFFFFFFE])
def test_an_address_in_no_function_stays_bare(address: int) -> None:
    place = read_symbols(ELF, "a.elf").place(address)
    assert place.function is None
    assert str(place) == f"{address:#010x}"


def test_a_symbol_without_a_size_reaches_to_the_next_one_and_not_for_ever() -> None:
    found = read_symbols(ELF, "a.elf")
    assert found.place(BASE + 0x2C + 0x100).function == "asm_end"
    assert found.place(BASE + 0x2C + (2 << 20)).function is None


def test_only_an_address_after_a_call_is_a_caller() -> None:
    found = read_symbols(ELF, "a.elf")
    after_bl, after_blx = found.caller(BASE + 0x14 + 1), found.caller(BASE + 0x16 + 1)
    assert after_bl is not None
    assert after_blx is not None
    assert {after_bl.function, after_blx.function} == {"loop"}
    # Not Thumb, not after a call, not in the file.
    assert found.caller(BASE + 0x14) is None
    assert found.caller(BASE + 0x8 + 1) is None
    assert found.caller(0x20000001) is None


def test_the_nonce_is_found_with_its_address() -> None:
    nonce = read_symbols(ELF, "a.elf").nonce
    assert nonce is not None
    assert (nonce.address, nonce.text) == (BASE + 0x18, NONCE)


def test_no_nonce_in_the_file_is_none() -> None:
    assert read_symbols(arm_elf(CODE, {"loop": (BASE + 1, 4)}), "a.elf").nonce is None
    outside = arm_elf(CODE, {"loop": (BASE + 1, 4)}, data={NONCE_SYMBOL: (0x20000000, 17)})
    assert read_symbols(outside, "a.elf").nonce is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a.elf is not a readable ELF"),
        (b"#!/bin/sh\n", "a.elf is not a readable ELF"),
        (ELF[:40], "a.elf is not a readable ELF"),
        (arm_elf(CODE, {}), "a.elf has no function in its symbol table"),
    ],
)
def test_a_file_that_tells_nothing_says_why(content: bytes, problem: str) -> None:
    found = read_symbols(content, "a.elf")
    assert found.problem is not None
    assert found.problem.startswith(problem)
    assert str(found.place(BASE)) == "0x10000000"
    assert found.caller(BASE + 1) is None


def test_no_length_and_no_flipped_byte_makes_it_raise() -> None:
    tried = 0
    for length in range(len(ELF)):
        read_symbols(ELF[:length], "a.elf").place(BASE + 4)
        tried += 1
    dice = random.Random(4)
    for _ in range(2000):
        damaged = bytearray(ELF)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        found = read_symbols(bytes(damaged), "a.elf")
        str(found.place(dice.randrange(1 << 32)))
        found.caller(BASE + 0x15)
        tried += 1
    assert tried == len(ELF) + 2000


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    assert load_symbols(None).problem == "no ELF is known"
    assert load_symbols(tmp_path / "gone.elf").problem == (
        "gone.elf cannot be read: No such file or directory"
    )
    assert load_symbols(tmp_path).problem == f"{tmp_path.name} cannot be read: Is a directory"


def test_an_elf_beyond_reason_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "MOST_BYTES", 100)
    (tmp_path / "a.elf").write_bytes(ELF)
    assert load_symbols(tmp_path / "a.elf").problem == "a.elf is larger than 100 bytes"


def test_names_stay_as_they_are_without_a_demangler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "DEMANGLERS", ("there-is-no-such-program",))
    assert demangled(("in _Z11read_sensorv",)) == ("in _Z11read_sensorv",)


def test_names_are_demangled_where_a_demangler_is_installed() -> None:
    if not any(map(shutil.which, symbols.DEMANGLERS)):
        pytest.skip("no c++filt is installed")
    lines = ("in _Z11read_sensorv (a.cpp:3)", "", "plain")
    assert demangled(lines) == ("in read_sensor (a.cpp:3)", "", "plain")


def test_a_demangler_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "filter"
    program.write_text("#!/bin/sh\ncat > /dev/null\necho one line\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(symbols, "DEMANGLERS", (str(program),))
    assert demangled(("in _Z1av", "b")) == ("in _Z1av", "b")
