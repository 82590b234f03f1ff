"""What ``expect`` may be given, compiled, and how it is looked for: pexpect's rules.

A string or bytes is a regular expression (``re.DOTALL``, as pexpect has it) over the raw bytes;
compiled patterns of either kind are taken with their flags; ``pexpect.TIMEOUT`` and
``pexpect.EOF`` stand for those two events.  Of several patterns the one that matches earliest in
the stream wins, and at one place the one that comes first in the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pexpect

from harness.errors import UsageError

Marker: TypeAlias = type[pexpect.TIMEOUT] | type[pexpect.EOF]
Pattern: TypeAlias = str | bytes | re.Pattern[str] | re.Pattern[bytes] | Marker
Patterns: TypeAlias = Pattern | Sequence[Pattern]


@dataclass(frozen=True)
class Found:
    """The pattern number ``index`` of the list and where it matched in the bytes searched."""

    index: int
    match: re.Match[bytes]


@dataclass(frozen=True)
class PatternSet:
    """A compiled list, numbered as the caller gave it; markers are held apart."""

    regexes: tuple[tuple[int, re.Pattern[bytes]], ...]
    timeout_index: int | None
    eof_index: int | None
    shown: str

    def search(self, data: bytes) -> Found | None:
        """The earliest match in ``data``, or None."""
        best: Found | None = None
        for index, regex in self.regexes:
            match = regex.search(data)
            if match is not None and (best is None or match.start() < best.match.start()):
                best = Found(index, match)
        return best


def compile_patterns(patterns: Patterns, *, exact: bool = False) -> PatternSet:
    """Compile what the caller gave; raises :class:`UsageError` on what is no pattern.

    ``exact`` takes strings and bytes literally.
    """
    several = isinstance(patterns, Sequence) and not isinstance(patterns, str | bytes)
    listed: Iterable[Pattern] = patterns if several else (patterns,)  # type: ignore[assignment]
    regexes: list[tuple[int, re.Pattern[bytes]]] = []
    timeout_index: int | None = None
    eof_index: int | None = None
    shown: list[str] = []
    for index, each in enumerate(listed):
        if each is pexpect.TIMEOUT:
            timeout_index = index if timeout_index is None else timeout_index
            shown.append("TIMEOUT")
        elif each is pexpect.EOF:
            eof_index = index if eof_index is None else eof_index
            shown.append("EOF")
        else:
            regex = _regex(each, exact)
            regexes.append((index, regex))
            source = each.pattern if isinstance(each, re.Pattern) else each
            shown.append(repr(source))
    if not shown:
        raise UsageError("expect was given an empty list", remedy="give at least one pattern")
    return PatternSet(tuple(regexes), timeout_index, eof_index, " or ".join(shown))


def _regex(pattern: object, exact: bool) -> re.Pattern[bytes]:
    try:
        if isinstance(pattern, re.Pattern):
            if isinstance(pattern.pattern, bytes):
                return pattern
            flags = pattern.flags & ~re.UNICODE
            return re.compile(pattern.pattern.encode("utf-8"), flags)
        if isinstance(pattern, str):
            pattern = pattern.encode("utf-8")
        if isinstance(pattern, bytes):
            return re.compile(re.escape(pattern) if exact else pattern, re.DOTALL)
    except (re.error, ValueError) as error:
        raise UsageError(
            f"{pattern!r} is not a regular expression over bytes: {error}",
            remedy="correct it, or use expect_exact for literal text",
        ) from error
    raise UsageError(
        f"expect cannot look for {pattern!r} of type {type(pattern).__name__!r}",
        remedy="give str, bytes, a compiled pattern, pexpect.TIMEOUT or pexpect.EOF",
    )
