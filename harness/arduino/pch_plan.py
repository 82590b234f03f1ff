"""Which sources may start from which precompiled header without becoming other programs.

Three quarters of the time that a kernel takes to compile goes into headers that nearly all of them
include.  A precompiled header put before a source changes the order in which headers are read, so
a source gets one only where that order cannot matter as far as text shows it:

- the source includes the header itself, unconditionally, with nothing but includes before it;
- no file that the source would have read earlier defines a macro that the header's files mention
  (a selective build's macros are of that kind: the header would define its defaults first), and
  none of them mentions a macro of the header's files without including the file that defines it.

What text cannot show: a file that uses a function or type of the header without including it fails
to compile alone, and compiles here.  Cores of someone else's compile without any of this.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

CXX_SUFFIXES = frozenset({".cpp", ".cc", ".cxx"})
HEADER_SUFFIXES = frozenset({".h", ".hh", ".hpp"})

COST_IN_SOURCES = 5
"""Making a precompiled header takes as long as reading it four times (measured with GCC 12), and
nothing else of the library compiles meanwhile on that processor."""

_CANDIDATES = 12
_HEADERS_AT_MOST = 3

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
"""Or a string, which may look as if a comment began in it."""

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*)$", re.MULTILINE)
_INCLUDED = re.compile(r'[<"]([^>"\n]+)[>"]')
_OPENING = re.compile(
    r"\s*(?:#[ \t]*pragma[ \t]+once\b[^\n]*\s*"
    r"|#[ \t]*ifndef[ \t]+(?P<guard>\w+)\s*#[ \t]*define[ \t]+(?P=guard)\b[^\n]*\s*)?"
    r'#[ \t]*include[ \t]*[<"](?P<name>[^>"\n]+)[>"]'
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class _Include:
    path: Path
    conditional: bool
    first: bool
    """Whether nothing but includes stands before it."""


@dataclass
class _File:
    """One file of the library, without comments."""

    path: Path
    text: str
    includes: list[_Include] = field(default_factory=list)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self.text))

    @cached_property
    def macros(self) -> frozenset[str]:
        return frozenset(_DEFINED.findall(self.text))


class Sources:
    """A library's sources and headers below ``root``, and who includes whom."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[Path, _File] = {}
        self._reached: dict[tuple[Path, bool], frozenset[Path]] = {}

    @cached_property
    def sources(self) -> tuple[Path, ...]:
        """Every C++ source, sorted."""
        return tuple(sorted(path for path in self.root.rglob("*") if path.suffix in CXX_SUFFIXES))

    def file(self, path: Path) -> _File:
        """What ``path`` holds; an unreadable byte is replaced, the compiler will have its say."""
        found = self._files.get(path)
        if found is None:
            text = _COMMENT.sub(
                lambda found: found[0] if found[0].startswith('"') else " ",
                path.read_text(encoding="utf-8", errors="replace"),
            )
            found = _File(path, text)
            found.includes.extend(self._includes(path, text))
            self._files[path] = found
        return found

    def reached(self, path: Path, *, surely: bool = False) -> frozenset[Path]:
        """``path`` and the library's files that it includes, directly or not.

        ``surely`` counts only includes that no ``#if`` can leave out.
        """
        key = (path, surely)
        if key not in self._reached:
            seen: set[Path] = set()
            waiting = [path]
            while waiting:
                current = waiting.pop()
                if current not in seen:
                    seen.add(current)
                    waiting += [
                        each.path
                        for each in self.file(current).includes
                        if not (surely and each.conditional)
                    ]
            self._reached[key] = frozenset(seen)
        return self._reached[key]

    def begins_with(self, path: Path, header: Path) -> bool:
        """Whether ``path`` is ``header``, or the first thing in it is an include of such a file."""
        seen: set[Path] = set()
        while path != header and path not in seen:
            seen.add(path)
            opening = _OPENING.match(self.file(path).text)
            found = self._find(path, opening["name"]) if opening else None
            if found is None:
                return False
            path = found
        return path == header

    def weight(self, header: Path) -> int:
        """What reading ``header`` costs, in characters of the library's own files."""
        return sum(len(self.file(each).text) for each in self.reached(header, surely=True))

    def _includes(self, path: Path, text: str) -> Iterator[_Include]:
        depth, guard, end = 0, 0, 0
        first = True
        for index, found in enumerate(_DIRECTIVE.finditer(text)):
            word, rest = found[1], found[2]
            first = first and not text[end : found.start()].strip()
            end = found.end()
            if word in {"if", "ifdef", "ifndef"}:
                depth += 1
                # An include guard is the first directive of its file and leaves nothing out.
                guard = 1 if index == 0 and word == "ifndef" else guard
            elif word == "endif":
                depth -= 1
            if word != "include":
                first = first and (word, rest.strip()) == ("pragma", "once")
                continue
            name = _INCLUDED.match(rest)
            target = self._find(path, name[1]) if name else None
            if target is not None:
                yield _Include(target, depth > guard, first)

    def _find(self, path: Path, name: str) -> Path | None:
        for folder in (path.parent, self.root):
            candidate = Path(os.path.normpath(folder / name))
            if candidate.is_file():
                return candidate
        return None


class _Header:
    """A header that may be precompiled, and the answer for each file met so far."""

    def __init__(self, sources: Sources, path: Path) -> None:
        self.path = path
        self.weight = sources.weight(path)
        self._sources = sources
        self.files = sources.reached(path)
        self._words = frozenset().union(*(sources.file(each).words for each in self.files))
        self._defined_in: dict[str, set[Path]] = {}
        for each in self.files:
            for name in sources.file(each).macros:
                self._defined_in.setdefault(name, set()).add(each)
        self._harmless: dict[Path, bool] = {}

    def may_lead(self, source: Path) -> bool:
        """Whether ``source`` stays the same program when this header is read before it."""
        before: set[Path] = set()
        for include in self._sources.file(source).includes:
            if include.conditional or not include.first:
                return False
            before |= self._sources.reached(include.path)
            if self.path in self._sources.reached(include.path, surely=True):
                return all(map(self._is_harmless, before - self.files))
        return False

    def _is_harmless(self, earlier: Path) -> bool:
        """Whether a file that is read before the header by rights may be read after it."""
        if earlier not in self._harmless:
            file = self._sources.file(earlier)
            own = self._sources.reached(earlier)
            foreign = (file.words & self._defined_in.keys()) - file.macros
            self._harmless[earlier] = not (file.macros & self._words) and all(
                self._defined_in[name] & own for name in foreign
            )
        return self._harmless[earlier]


def plan(sources: Sources) -> dict[Path, tuple[Path, ...]]:
    """The headers worth precompiling, each with the sources that start from it.

    Chosen one after the other by what they save; empty for a library in which none pays.
    """
    headers = [_Header(sources, path) for path in _candidates(sources)]
    may = {
        header.path: [source for source in sources.sources if header.may_lead(source)]
        for header in headers
    }
    saved: dict[Path, int] = {}
    led_by: dict[Path, Path] = {}
    for _ in range(_HEADERS_AT_MOST):
        gains = {
            header: _gain(header.weight, may[header.path], saved) - COST_IN_SOURCES * header.weight
            for header in headers
        }
        best = max(gains, key=lambda each: (gains[each], str(each.path)), default=None)
        if best is None or gains[best] <= 0:
            break
        for source in may[best.path]:
            if best.weight > saved.get(source, 0):
                saved[source], led_by[source] = best.weight, best.path
    chosen: dict[Path, tuple[Path, ...]] = {}
    for source in sorted(led_by):
        chosen[led_by[source]] = (*chosen.get(led_by[source], ()), source)
    return chosen


def _candidates(sources: Sources) -> list[Path]:
    used = Counter(
        each
        for source in sources.sources
        for each in sources.reached(source, surely=True)
        if each.suffix in HEADER_SUFFIXES
    )
    shared = [path for path, count in used.items() if count > COST_IN_SOURCES]
    worth = {path: used[path] * sources.weight(path) for path in shared}
    return sorted(worth, key=lambda path: (-worth[path], str(path)))[:_CANDIDATES]


def _gain(weight: int, led: Iterable[Path], saved: Mapping[Path, int]) -> int:
    return sum(max(0, weight - saved.get(source, 0)) for source in led)
