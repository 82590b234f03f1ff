from __future__ import annotations

from pathlib import Path

import pytest

from harness.clock import monotonic_s
from harness.errors import UsageError
from harness.preflight.check import program_of_header
from harness.preflight.model_file import MAX_FILE_BYTES, parse_header, read_model, read_model_file
from harness.preflight.program import NotAProgram
from tests.programs import add_program

DATA = add_program().build()


def header(data: bytes, *, name: str = "model_pte", before: str = "", after: str = "") -> str:
    rows = "".join(
        "    " + ",".join(f"0x{byte:02x}" for byte in data[at : at + 16]) + ",\n"
        for at in range(0, len(data), 16)
    )
    return (
        f"// made for a test: model_pte[] = {{ 1, 2 }}\n{before}#pragma once\n"
        f"alignas(16) static const uint8_t {name}[] = {{\n{rows}}};\n"
        f"static const size_t {name}_size = {len(data)};\n{after}"
    )


def parsed(text: str) -> bytes:
    return parse_header(text.encode(), "model.h").data


def test_a_pte_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(DATA)
    assert read_model(path).kind == "pte"
    assert read_model_file(path) == DATA


def test_a_header_gives_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.h"
    path.write_text(header(DATA))
    model = read_model(path)
    assert (model.data, model.kind, model.array, model.notes) == (DATA, "header", "model_pte", ())
    assert program_of_header(path.read_bytes()) == DATA


@pytest.mark.parametrize(
    "text",
    [
        "unsigned char model_pte[] = {0x01, 2, 255, 0X1f, -1, 'a', '\\x41', '\\0', 017, 3u};",
        "const uint8_t model_pte[10] __attribute__((aligned(16))) = {1,2,255,31,-1,97,65,0,15,3};",
        "char model_pte [] PROGMEM = {1 /* a, b */, 2, //\n 255, 31, 0xff, 97, 65, 0, 15, 0b11, };",
    ],
)
def test_other_ways_to_write_the_array(text: str) -> None:
    assert parsed(text) == bytes([1, 2, 255, 31, 255, 97, 65, 0, 15, 3])


def test_model_pte_is_chosen_among_several_arrays() -> None:
    other = "static const uint8_t labels[] = {1, 2};\n"
    assert parsed(header(DATA, after=other)) == DATA
    with pytest.raises(NotAProgram, match="2 arrays"):
        parsed(header(DATA, name="first", after=other))


def test_an_array_in_a_comment_does_not_count() -> None:
    assert parsed(header(DATA, before="/* uint8_t model_pte[] = {9}; */\n")) == DATA


def test_a_declared_length_is_filled_with_zeros() -> None:
    assert parsed("alignas(16) uint8_t model_pte[4] = {1, 2};") == b"\1\2\0\0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no array"),
        ("#error no model", "no array"),
        (header(DATA)[:300], "cut short"),
        ("uint8_t model_pte[] = {1, 2, 300};", "element '300'"),
        ("uint8_t model_pte[] = {1, size, 3};", "element 'size'"),
        ("uint8_t model_pte[] = {09};", "element '09'"),
        ("uint8_t model_pte[2] = {1, 2, 3};", "3 elements and room for 2"),
        ("uint8_t model_pte[99999999999] = {1};", "99999999999"),
        (header(DATA).replace(f"= {len(DATA)};", f"= {len(DATA) + 1};"), "gives the size"),
    ],
)
def test_a_header_that_gives_no_program_says_why(text: str, says: str) -> None:
    with pytest.raises(NotAProgram, match=says) as caught:
        parsed(text)
    assert "model_pte" in caught.value.remedy


def test_a_header_that_is_not_text() -> None:
    with pytest.raises(NotAProgram, match="not text from byte 1 on"):
        parse_header(b"/\xff\xfe", "model.h")


def test_an_array_without_alignment_is_remarked_on() -> None:
    (note,) = parse_header(b"const uint8_t model_pte[] = {1};", "model.h").notes
    assert "alignment" in note


@pytest.mark.parametrize("piece", ["/*", "//", "'", "char x[", "char x[] ={", "0x0", "char\t"])
def test_hostile_text_takes_no_time(piece: str) -> None:
    started_s = monotonic_s()
    with pytest.raises(NotAProgram):
        parsed(piece * 100_000)
    assert monotonic_s() - started_s < 1


def test_a_missing_file_and_a_folder_are_the_callers_mistake(tmp_path: Path) -> None:
    for path in (tmp_path / "none.pte", tmp_path):
        with pytest.raises(UsageError, match="no model file"):
            read_model(path)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(UsageError, match="large"):
        read_model(path)
