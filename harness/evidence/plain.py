"""Reading JSON that may be anybody's: bounded, and of the shape that is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

from harness.errors import HilError

MAX_JSON_BYTES = 64 * 1024 * 1024
"""Largest ``run.json`` that is read; a run of 40 cases leaves 20 KB."""


class Damaged(HilError):
    """A file of a run is not what the run wrote: missing, cut short, altered, of another shape.

    Cause: what happened to the folder since.  Remedy: have it sent again.
    """

    stage = "replay"


def damaged(what: str, why: str) -> Damaged:
    """The error for one file; ``why`` says what is wrong with it."""
    return Damaged(f"{what} {why}", remedy="have the run's folder sent again, as it was written")


class Plain:
    """A JSON object whose values are asked for by type; ``what`` names it in messages."""

    def __init__(self, what: str, content: object) -> None:
        if not isinstance(content, dict):
            raise damaged(what, f"is no JSON object but of type {type(content).__name__!r}")
        self.what = what
        self.content: Mapping[str, object] = content

    def text(self, key: str) -> str:
        """A string."""
        value = self.content.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "text", value)
        return value

    def text_or_none(self, key: str) -> str | None:
        """A string, or None where it is null or missing."""
        return None if self.content.get(key) is None else self.text(key)

    def count(self, key: str) -> int:
        """A whole number that is not negative."""
        value = self.content.get(key)
        if type(value) is not int or value < 0:
            raise self._wrong(key, "a count", value)
        return value

    def count_or_none(self, key: str) -> int | None:
        """As :meth:`count`, or None where it is null or missing."""
        return None if self.content.get(key) is None else self.count(key)

    def seconds(self, key: str) -> float:
        """A finite number that is not negative."""
        value = self.content.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a time in seconds", value)
        if not math.isfinite(value) or value < 0:
            raise self._wrong(key, "a time in seconds", value)
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings; missing is empty."""
        value = self.content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._wrong(key, "a list of texts", value)
        return tuple(value)

    def parts(self, key: str) -> tuple[Plain, ...]:
        """A list of objects; missing is empty."""
        value = self.content.get(key, [])
        if not isinstance(value, list):
            raise self._wrong(key, "a list", value)
        return tuple(
            Plain(f"{self.what}, {key}[{number}]", each) for number, each in enumerate(value)
        )

    def part(self, key: str) -> Plain:
        """An object; missing is empty."""
        return Plain(f"{self.what}, {key}", self.content.get(key, {}))

    def _wrong(self, key: str, wanted: str, value: object) -> Damaged:
        return damaged(self.what, f"has {repr(value)[:80]} where {key!r} is {wanted}")


def decode(what: str, data: bytes) -> Plain:
    """The object in ``data``; raises :class:`Damaged` on anything else."""
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise damaged(what, f"is not JSON: {str(error)[:200]}") from error
    return Plain(what, content)


def read_plain(path: Path, what: str) -> Plain:
    """The object in a file; raises :class:`Damaged` when it cannot be read or is none."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise damaged(what, f"cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_JSON_BYTES:
        raise damaged(what, f"is larger than {MAX_JSON_BYTES} B")
    return decode(what, data)
