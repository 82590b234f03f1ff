from __future__ import annotations

import re

import pytest

from harness.errors import UsageError
from harness.model.header import header_text


def array(text: str) -> bytes:
    return bytes(int(each, 16) for each in re.findall(r"0x([0-9a-f]{2})", text))


@pytest.mark.parametrize("size", [1, 15, 16, 17, 300])
def test_the_array_holds_the_program(size: int) -> None:
    program = bytes(range(256)) * 2
    assert array(header_text(program[:size], title="t")) == program[:size]


def test_what_sketches_rely_on() -> None:
    text = header_text(b"abc", title="Add; portable")
    assert text.startswith("// Add; portable (3 bytes)\n")
    assert "#pragma once" in text
    assert "alignas(16)" in text
    assert "static const uint8_t model_pte[] = {" in text
    assert "model_pte_size = sizeof(model_pte);" in text
    assert "section" not in text


def test_the_same_program_gives_the_same_text() -> None:
    assert header_text(b"abc", title="t") == header_text(b"abc", title="t")


@pytest.mark.parametrize("title", ["a\nint x;", "a\r\nint x;", "a \\", "a\x0bint x;"])
def test_a_title_cannot_leave_its_comment(title: str) -> None:
    first, second, *_ = header_text(b"a", title=title).split("\n")
    assert first.startswith("// a")
    assert not first.rstrip().endswith("\\")
    assert second.startswith("// Made by")


def test_an_empty_program_is_refused() -> None:
    with pytest.raises(UsageError, match="the program is empty"):
        header_text(b"", title="t")


@pytest.mark.parametrize("name", ["", "1x", "a b", "a[1]", "x;y"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot name an array"):
        header_text(b"a", title="t", name=name)
