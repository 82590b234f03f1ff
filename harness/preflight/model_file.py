"""Gets a program's bytes out of a ``.pte`` file or out of the ``model.h`` made from one.

A header is read as text, never compiled.  What counts is the one array of bytes in it: its element
list, its declared length, and the ``<name>_size`` constant beside it, which sketches pass on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.errors import DutFailure, UsageError
from harness.preflight.program import NotAProgram

MAX_FILE_BYTES = 64 * 2**20  # many times what any of the boards can hold, text form included
MODEL_ARRAY = "model_pte"
_HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".c", ".cc", ".cpp", ".inc")

_COMMENT = re.compile(r"//|/\*")
_ARRAY = re.compile(
    r"\b(?:uint8_t|int8_t|char|byte)\s+(?:const\s+)?(\w{1,200})\s*\[\s*(\w*)\s*\][^;={}]{0,200}=\s*\{"
)
_PLAIN = re.compile(r"(?:\s*0x[0-9a-fA-F]{2}\s*,)*\s*(?:0x[0-9a-fA-F]{2}\s*)?")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_CHARACTER = re.compile(r"'(?:\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})|([^'\\\n]))'")
_ALIGNED = re.compile(r"\balignas\s*\(|\baligned\s*\(|_ALIGN", re.IGNORECASE)


@dataclass(frozen=True)
class ModelFile:
    """The bytes of a model file, what kind of file it was, and remarks that are no errors."""

    data: bytes
    kind: Literal["pte", "header"]
    array: str | None
    notes: tuple[str, ...]


def read_model_file(path: Path) -> bytes:
    """The program's bytes in ``path``; see :func:`read_model`."""
    return read_model(path).data


def read_model(path: Path) -> ModelFile:
    """The model in ``path``, a ``.pte`` or a C header.

    Raises :class:`UsageError` where the file cannot be read or is too large to be a model, and
    :class:`NotAProgram` where a header holds no array of bytes.
    """
    raw = _read(path)
    if path.suffix.lower() in _HEADER_SUFFIXES:
        return parse_header(raw, path.name)
    return ModelFile(raw, "pte", None, ())


def parse_header(raw: bytes, name: str) -> ModelFile:
    """The model in a C header; ``name`` is used in messages.  Raises :class:`NotAProgram`."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_a_header(f"{name!r} is not text from byte {error.start} on") from error
    text = _without_comments(text)
    arrays = list(_ARRAY.finditer(text))
    chosen = [each for each in arrays if each.group(1) == MODEL_ARRAY] or arrays
    if not chosen:
        raise _not_a_header(f"{name!r} defines no array of bytes")
    if len(chosen) > 1:
        names = ", ".join(repr(each.group(1)) for each in chosen[:8])
        raise _not_a_header(f"{name!r} defines {len(chosen)} arrays of bytes ({names})")
    match = chosen[0]
    array = match.group(1)
    end = text.find("}", match.end())
    if end < 0:
        raise _not_a_header(f"the array {array!r} in {name!r} does not end: the file was cut short")
    data = _elements(text[match.end() : end], array, name)
    data = _declared_length(data, match.group(2), array, name)
    _check_size_constant(text, data, array, name)
    notes = []
    line_start = text.rfind("\n", 0, match.start()) + 1
    if not _ALIGNED.search(text, max(0, line_start - 200), match.end()):
        notes.append(
            f"the array {array!r} asks for no alignment; where the compiler does not place it at a "
            "multiple of 16, Program::load fails with 0x12"
        )
    return ModelFile(data, "header", array, tuple(notes))


def _without_comments(text: str) -> str:
    """The text with each comment made a space, in one pass however many there are."""
    pieces = []
    at = 0
    while match := _COMMENT.search(text, at):
        pieces.append(text[at : match.start()])
        closing = "\n" if match.group() == "//" else "*/"
        end = text.find(closing, match.end())
        if end < 0:
            return " ".join(pieces)
        at = end + (0 if closing == "\n" else 2)
    pieces.append(text[at:])
    return " ".join(pieces)


def _elements(body: str, array: str, name: str) -> bytes:
    if _PLAIN.fullmatch(body):
        return bytes.fromhex(body.replace("0x", "").replace(",", " "))
    values = bytearray()
    for part in body.split(","):
        word = part.strip()
        if not word:
            continue
        value = _element(word)
        if value is None or not -128 <= value <= 255:
            raise _not_a_header(f"the array {array!r} in {name!r} has an element {word[:40]!r}")
        values.append(value & 0xFF)
    return bytes(values)


def _element(word: str) -> int | None:
    if word.startswith("-"):
        value = _element(word[1:].strip())
        return None if value is None else -value
    if len(word) > 12:
        return None
    if _NUMBER.fullmatch(word):
        digits = word.rstrip("uUlL")
        if len(digits) > 1 and digits.isdigit() and digits.startswith("0"):
            return int(digits, 8) if set(digits) <= set("01234567") else None
        return int(digits, 0)
    character = _CHARACTER.fullmatch(word)
    if character is None:
        return None
    hexadecimal, octal, plain = character.groups()
    if hexadecimal:
        return int(hexadecimal, 16)
    return int(octal, 8) if octal else ord(plain)


def _declared_length(data: bytes, declared: str, array: str, name: str) -> bytes:
    length = _element(declared) if declared else None
    if length is None:
        return data
    if length < len(data):
        raise _not_a_header(
            f"the array {array!r} in {name!r} has {len(data)} elements and room for {length}"
        )
    if length > MAX_FILE_BYTES:
        raise _not_a_header(f"the array {array!r} in {name!r} is declared {length} bytes long")
    return data + bytes(length - len(data))


def _check_size_constant(text: str, data: bytes, array: str, name: str) -> None:
    """A sketch hands this constant to the runtime, so it must not say more than there is."""
    constant = re.search(rf"\b{array}_(?:size|len)\s*=\s*(\d{{1,12}})\b", text)
    if constant and int(constant.group(1)) != len(data):
        raise _not_a_header(
            f"{name!r} gives the size of {array!r} as {constant.group(1)}, "
            f"and the array has {len(data)} bytes"
        )


def _read(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(
                f"there is no model file {str(path)!r}",
                remedy="give the path of a .pte or of a model.h made from one",
            )
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise UsageError(
                f"the model file {str(path)!r} is {size} bytes large, over {MAX_FILE_BYTES}",
                remedy="give a model that a microcontroller can hold",
            )
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the model file {str(path)!r}: {error.strerror}",
            remedy="check the path and its permissions",
        ) from error


def _not_a_header(message: str) -> DutFailure:
    return NotAProgram(
        message, remedy=f"make the header from the .pte again, with one array {MODEL_ARRAY!r}"
    )
