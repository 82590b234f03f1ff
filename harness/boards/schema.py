"""Typed reading of a TOML table that notices every key it was not asked for.

Errors name the file, the line and the key.  ``tomllib`` keeps no positions, so the line is found
again in the text: the n-th header of an array of tables, then the key below it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NoReturn, TypeVar

from harness.errors import UsageError

E = TypeVar("E", bound=Enum)

UNITS = ("bytes", "kb", "kib", "mb", "mib", "s", "ms", "us", "hz", "baud")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest of ``known``, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


class Table:
    """One table of a TOML file.  Every accessor raises :class:`UsageError` on a wrong value."""

    def __init__(
        self,
        raw: Mapping[str, object],
        *,
        path: Path,
        text: str,
        prefix: tuple[str, ...] = (),
        numbers: tuple[int, ...] = (),
    ) -> None:
        self._raw = raw
        self._path = path
        self._text = text
        self._prefix = prefix
        self._numbers = numbers
        self._asked: set[str] = set()
        self._below: list[Table] = []

    def text(self, key: str, *, pattern: str | None = None) -> str:
        """A string that is not empty and, where a pattern is given, matches the whole of it."""
        value = self._take(key)
        if not isinstance(value, str) or not value.strip():
            self.fail(key, f"is {value!r}", "give a string that is not empty")
        if pattern is not None and not re.fullmatch(pattern, value):
            self.fail(key, f"is {value!r}", f"write it as {pattern}")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string as of :meth:`text`, or None where the key is absent."""
        return None if self._take(key, optional=True) is None else self.text(key)

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...]:
        """A list of strings."""
        value = self._take(key, optional=optional)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fail(key, f"is {value!r}", "give a list of strings")
        return tuple(value)

    def whole(self, key: str, *, least: int = 0, most: int = 2**40) -> int:
        """A whole number within ``least`` to ``most``; its unit is in the key's name."""
        return self._number(key, self._take(key), least, most)

    def optional_whole(self, key: str, *, least: int = 0, most: int = 2**40) -> int | None:
        """A whole number as of :meth:`whole`, or None where the key is absent."""
        value = self._take(key, optional=True)
        return None if value is None else self._number(key, value, least, most)

    def wholes(self, key: str, *, optional: bool = False) -> tuple[int, ...]:
        """A list of whole numbers, none negative."""
        value = self._take(key, optional=optional)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fail(key, f"is {value!r}", "give a list of whole numbers")
        return tuple(self._number(key, each, 0, 2**40) for each in value)

    def _number(self, key: str, value: object, least: int, most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(key, f"is {value!r}", "give a whole number without quotes or unit")
        if not least <= value <= most:
            self.fail(key, f"is {value!r}", f"give a number from {least} to {most}")
        return value

    def flag(self, key: str) -> bool:
        """True or false."""
        value = self._take(key)
        if not isinstance(value, bool):
            self.fail(key, f"is {value!r}", "give true or false")
        return value

    def enum(self, key: str, closed: type[E]) -> E:
        """One of a closed set, by its value."""
        return self._member(key, self._take(key), closed)

    def optional_enum(self, key: str, closed: type[E]) -> E | None:
        """One of a closed set, or None where the key is absent."""
        value = self._take(key, optional=True)
        return None if value is None else self._member(key, value, closed)

    def enums(self, key: str, closed: type[E]) -> tuple[E, ...]:
        """A list of members of a closed set, by their values; empty where the key is absent."""
        return tuple(self._member(key, each, closed) for each in self.texts(key, optional=True))

    def _member(self, key: str, value: object, closed: type[E]) -> E:
        names = [str(each.value) for each in closed]
        for each in closed:
            if each.value == value:
                return each
        hint = did_you_mean(str(value), names)
        self.fail(key, f"is {value!r}{hint}", f"give one of {', '.join(names)}")

    def table(self, key: str) -> Table:
        """A table that must be there."""
        found = self.optional_table(key)
        if found is None:
            self.fail(key, "is missing", f"add a [{key}] table")
        return found

    def optional_table(self, key: str) -> Table | None:
        """A table that may be absent."""
        value = self._take(key, optional=True)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(key, f"is {value!r}", f"write it as a [{key}] table")
        return self._child(key, value, 0)

    def tables(self, key: str, *, optional: bool = False) -> tuple[Table, ...]:
        """An array of tables, at least one unless ``optional``."""
        value = self._take(key, optional=optional)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.fail(key, "is not a list of tables", f"write [[{key}]] for each entry")
        if not value and not optional:
            self.fail(key, "is empty", f"write at least one [[{key}]]")
        return tuple(self._child(key, each, number) for number, each in enumerate(value))

    def close(self) -> None:
        """Say which key of this table, or of one below, nobody asked for."""
        for key in self._raw:
            if key not in self._asked:
                self.fail(key, self._unknown(key), "correct or remove it")
        for table in self._below:
            table.close()

    def fail(self, key: str, problem: str, remedy: str) -> NoReturn:
        """Raise :class:`UsageError` for ``key`` of this table."""
        dotted = ".".join((*self._prefix, key))
        raise UsageError(f"{self._path}:{self._line(key)}: key {dotted!r} {problem}", remedy=remedy)

    def _unknown(self, key: str) -> str:
        stem, _, unit = key.rpartition("_")
        for known in sorted(self._asked):
            known_stem, _, known_unit = known.rpartition("_")
            if stem == known_stem and stem and known_unit in UNITS and unit != known_unit:
                return f"is in the wrong unit {unit!r}; did you mean {known!r}?"
        return f"is not known{did_you_mean(key, self._asked)}"

    def _take(self, key: str, *, optional: bool = False) -> object:
        self._asked.add(key)
        if key not in self._raw:
            if optional:
                return None
            for other in self._raw:
                # A misspelt key is both unknown and missing; the unknown one says more.
                if other not in self._asked and did_you_mean(other, [key]):
                    self.fail(other, self._unknown(other), "correct or remove it")
            self.fail(key, "is missing", "add it; boards/README.md describes every key")
        return self._raw[key]

    def _child(self, key: str, raw: Mapping[str, object], number: int) -> Table:
        table = Table(
            raw,
            path=self._path,
            text=self._text,
            prefix=(*self._prefix, key),
            numbers=(*self._numbers, number),
        )
        self._below.append(table)
        return table

    def _line(self, key: str) -> int:
        """Line of ``key`` in the file, or of its table's header, or 1."""
        lines = self._text.splitlines()
        start = 0
        for depth, number in enumerate(self._numbers):
            name = re.escape(".".join(self._prefix[: depth + 1]))
            header = re.compile(rf"\s*\[{{1,2}}\s*{name}\s*\]{{1,2}}")
            seen = -1
            for at in range(start, len(lines)):
                if header.match(lines[at]):
                    seen += 1
                    if seen == number:
                        start = at
                        break
        entry = re.compile(rf'\s*(\[{{1,2}}[\w.]*)?"?{re.escape(key)}"?\s*(=|\])')
        for at in range(start, len(lines)):
            if entry.match(lines[at]):
                return at + 1
            if at > start and not self._prefix and lines[at].lstrip().startswith("["):
                break
        return start + 1
