"""What is taken out of a run before it is sent, and what stands there instead.

A placeholder is as long as what it replaces, counted in bytes: offsets in the transcript stay
those of the index, and the same name has the same placeholder everywhere, in text and in bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

SecretKind = Literal["home", "user", "host", "serial"]

MAX_DISTINCT = 1000
"""Most different names of one kind that are told apart; a board may print any number."""

LEAST_BYTES = 3
"""Shorter names are left alone outside of paths: they would occur in everything."""

_COMMON = """
root user users home pi admin runner ubuntu debian arduino dev build builder test tests lab nobody
guest docker vagrant ci jenkins localhost localdomain none host board echo hil
"""
TELLS_NOBODY = frozenset(_COMMON.split())
"""Names that many people and machines have, and many sentences."""

_LETTERS: Mapping[SecretKind, str] = {"home": "H", "user": "U", "host": "N", "serial": "S"}
_HOME = rb"(?<![\w.-])/(?:home|Users)/(?!-)[^/\s\"'\\:,;<>|*?\x00-\x1f()\[\]{}&=`]{1,64}"
_ALONE_BEFORE, _ALONE_AFTER = rb"(?<![A-Za-z0-9_])", rb"(?![A-Za-z0-9_])"


@dataclass(frozen=True)
class Secrets:
    """Names that are known to be private, by kind."""

    homes: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    serials: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hit:
    """One place in a file: bytes ``start`` to ``end`` become ``placeholder``."""

    start: int
    end: int
    kind: SecretKind
    placeholder: bytes


@dataclass
class Redactor:
    """Finds private names in bytes and gives each its placeholder."""

    secrets: Secrets
    kept: list[str] = field(default_factory=list)
    """Names that were not looked for, and why."""

    _numbers: dict[tuple[SecretKind, bytes], int] = field(default_factory=dict)
    _pattern: re.Pattern[bytes] | None = None
    _kinds: dict[bytes, tuple[SecretKind, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted: list[tuple[SecretKind, str, bool]] = []
        for home in sorted(self.secrets.homes):
            # "/" is the home of some service accounts, and begins every path.
            if len(home.strip("/")) > 1:
                wanted.append(("home", home.rstrip("/"), True))
        for kind, names in (("user", self.secrets.users), ("host", self.secrets.hosts)):
            for name in sorted(names):
                wanted += self._name("user" if kind == "user" else "host", name)
        for serial in sorted(self.secrets.serials):
            if len(serial.encode()) >= LEAST_BYTES:
                wanted.append(("serial", serial, False))
        parts: list[bytes] = []
        for kind_of, name, is_path in wanted:
            for spelled in _spellings(name):
                self._kinds.setdefault(spelled, (kind_of, name.encode("utf-8", "surrogateescape")))
                before = rb"(?<![\w.-])" if is_path else _ALONE_BEFORE
                after = rb"(?![\w.-])" if is_path else _ALONE_AFTER
                parts.append(before + re.escape(spelled) + after)
        # Longest first: a host's full name before its first label.
        parts.sort(key=len, reverse=True)
        self._pattern = re.compile(b"|".join([*parts, _HOME]))

    def _name(self, kind: SecretKind, name: str) -> list[tuple[SecretKind, str, bool]]:
        if not name:
            return []
        if name.casefold() in TELLS_NOBODY:
            self.kept.append(f"{kind} {name!r}: a name that many have")
            return []
        if len(name.encode("utf-8", "surrogateescape")) < LEAST_BYTES:
            self.kept.append(f"{kind} {name!r}: too short to be told from other words")
            return []
        return [(kind, name, False)]

    def hits(self, data: bytes | memoryview) -> Iterator[Hit]:
        """Every private name in ``data``, a buffer of any size, in order."""
        assert self._pattern is not None
        for match in self._pattern.finditer(data):
            found = bytes(match.group(0))
            kind, name = self._kinds.get(found, ("home", found))
            yield Hit(match.start(), match.end(), kind, self._placeholder(kind, name, len(found)))

    def _placeholder(self, kind: SecretKind, name: bytes, length: int) -> bytes:
        known = sum(1 for each in self._numbers if each[0] == kind)
        number = self._numbers.get((kind, name))
        if number is None:
            number = min(known + 1, MAX_DISTINCT)
            if known < MAX_DISTINCT:
                self._numbers[kind, name] = number
        slash = "/" if kind == "home" else ""
        for text in (f"{slash}{kind.upper()}-{number}", f"{slash}{_LETTERS[kind]}{number}"):
            if len(text) <= length:
                return text.ljust(length, "x").encode("ascii")
        return (_LETTERS[kind] * length).encode("ascii")

    def redact(self, text: str) -> str:
        """A short text with its private names replaced."""
        data = bytearray(text.encode("utf-8", "surrogateescape"))
        for hit in list(self.hits(bytes(data))):
            data[hit.start : hit.end] = hit.placeholder
        return data.decode("utf-8", "surrogateescape")

    @property
    def distinct(self) -> dict[str, int]:
        """How many different names of each kind were found."""
        counts: dict[str, int] = {}
        for kind, _ in self._numbers:
            counts[kind] = counts.get(kind, 0) + 1
        return counts


def _spellings(name: str) -> Iterable[bytes]:
    """A name as it may stand in a file: itself, in JSON, and with escapes as evidence has it."""
    raw = name.encode("utf-8", "surrogateescape")
    escaped = json.dumps(name)[1:-1].encode("ascii")
    written = name.encode("unicode_escape")
    return dict.fromkeys((raw, escaped, written))
