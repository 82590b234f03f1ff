"""Writing a measured band into the board's file, where everything else stays as it is.

The file is data that people keep, with comments: only the lines of the band's own keys change.
The new text is read as a board before it takes the old one's place, and must differ from it in that
one band and nothing else.
"""

from __future__ import annotations

import getpass
import json
import re
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path

from harness.arena.band import Band
from harness.arena.plan import KIB
from harness.boards.board import ArenaBand, Board, Standing, load_board
from harness.errors import BenchError, UsageError
from harness.paths import cache_dir
from harness.storage.atomic_file import write_atomically
from harness.storage.lock import hold

_HEADER = re.compile(r"\s*\[(?P<array>\[)?\s*(?P<name>[\w.\s\"-]+?)\s*\]\]?\s*(#.*)?")
_ORDER = (
    "works_bytes",
    "fails_bytes",
    "shipped_bytes",
    "untested_bytes",
    "standing",
    "source",
)


def recordable(band: Band, *, user: str | None = None) -> ArenaBand:
    """The band as data: sizes in KiB by what became of them, and who, when, on what.

    A size that works and reaches the reservation stays untested: that it ran does not make it
    safe.  A stand-in's result has the standing ``reported``: no real board fails by it.
    """
    rows = [row for row in band.rows if row.size_bytes % KIB == 0]
    return ArenaBand(
        sketch=band.on.sketch,
        fails_bytes=tuple(row.size_bytes for row in rows if row.loads is False),
        works_bytes=tuple(row.size_bytes for row in rows if row.attempt.works and row.safe),
        shipped_bytes=band.plan.shipped_bytes,
        untested_bytes=tuple(
            row.size_bytes
            for row in rows
            if row.loads is not False and not (row.attempt.works and row.safe)
        ),
        standing=Standing.REPORTED if band.on.stand_in else Standing.MEASURED,
        source=_source(band, user or _user()),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "a user without a name"


def _source(band: Band, user: str) -> str:
    on = band.on
    least = band.lower.smallest_bytes
    told = "nothing tried works" if least is None else f"least {least} B"
    odd = [row.size_bytes for row in band.rows if row.size_bytes % KIB]
    return (
        f"measured {band.when[:10]} by {user} with hil arena on {on.kind} {on.serial_number},"
        f" library {on.library}, {on.exporter}; {told}, globals reach the reservation above"
        f" {band.upper.largest_bytes} B (computed)"
        + (f"; {', '.join(map(str, odd))} B tried, too" if odd else "")
    )


def record(board: Board, core_version: str, measured: ArenaBand, *, stand_in: bool) -> str:
    """Write ``measured`` into the board's file; returns one sentence about what it replaced.

    Raises :class:`UsageError` for a stand-in's result where the file has one that was measured on
    the real board, and where the file cannot be changed without changing something else;
    :class:`BenchError` when it cannot be written.
    """
    path = board.path
    with hold(cache_dir() / "record.lock", purpose=f"recording a band in {path.name}"):
        before = load_board(path)
        known = before.core_version(core_version).arena(measured.sketch)
        if stand_in and known is not None and known.standing is Standing.MEASURED:
            raise UsageError(
                f"core {core_version!r} of board {board.name!r} has a band of {measured.sketch!r}"
                " that was measured on the real board, and this one is a stand-in's",
                remedy="record from the real board; to keep the stand-in's, copy --json's output",
                evidence=(f"its source: {known.source}",),
            )
        try:
            # Not as text: that would give every line the same end.
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot read {str(path)!r}: {error}", remedy="check the file and its permissions"
            ) from error
        new = with_band(text, core_version, measured)
        _require_only_this_changed(before, new, core_version, measured)
        try:
            write_atomically(path, new.encode("utf-8"), mode=path.stat().st_mode & 0o777)
        except OSError as error:
            raise BenchError(
                f"cannot write {str(path)!r}: {error.strerror or error}",
                remedy="copy the board file to a folder of your own and name it by its path",
            ) from error
    if known is None:
        return f"{path.name}: new band of {measured.sketch!r} for core {core_version}"
    return (
        f"{path.name}: band of {measured.sketch!r} for core {core_version} replaced; before:"
        f" {known.source}"
    )


def with_band(text: str, core_version: str, band: ArenaBand) -> str:
    """The file's text with this band in the place of the one it has, or after its core's tables.

    Raises :class:`UsageError` where that core is not written as ``[[core_version]]`` tables.
    """
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        return with_band(text.replace("\r\n", "\n"), core_version, band).replace("\n", "\r\n")
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    headers = [
        (number, match["name"].replace(" ", ""))
        for number, line in enumerate(lines)
        if (match := _HEADER.fullmatch(line.rstrip("\r\n"))) and not _inside_value(lines, number)
    ]
    ends = [number for number, _ in headers[1:]] + [len(lines)]
    start, end = _core(lines, headers, core_version)
    for (number, name), after in zip(headers, ends, strict=True):
        if start <= number < end and name == "core_version.arena":
            own = _own_end(lines, number, after)
            content = tomllib.loads("".join(lines[number + 1 : own]))
            if content.get("sketch") == band.sketch:
                changed = _changed(lines[number + 1 : own], band)
                return "".join([*lines[: number + 1], changed, *lines[own:]])
    at = _own_end(lines, start, end)
    whole = f"[[core_version.arena]]\nsketch = {_toml(band.sketch)}\n{_changed([], band)}"
    before = "".join(lines[:at])
    gap = "\n" if before.endswith("\n") else "\n\n"
    rest = "".join(lines[at:])
    return before + gap + whole + ("" if rest.startswith("\n") or not rest else "\n") + rest


def _core(lines: list[str], headers: list[tuple[int, str]], core_version: str) -> tuple[int, int]:
    """First line and end of the tables of one core version."""
    cores = [number for number, name in headers if name == "core_version"]
    others = [number for number, name in headers if not name.startswith("core_version")]
    for at, start in enumerate(cores):
        later = [*cores[at + 1 :], *(each for each in others if each > start), len(lines)]
        end = min(later)
        own = min([number for number, _ in headers if number > start] + [end])
        content = tomllib.loads("".join(lines[start + 1 : own]))
        if content.get("version") == core_version:
            return start, end
    raise UsageError(
        f"the board file has no [[core_version]] table {core_version!r} that could be changed",
        remedy="write the core version as tables, as boards/README.md shows",
    )


def _inside_value(lines: list[str], number: int) -> bool:
    """Whether a line that looks like a header stands within a value of several lines."""
    start = number
    while start > 0 and not re.match(r"\s*[\w.\"-]+\s*=", lines[start]):
        start -= 1
    try:
        tomllib.loads("".join(lines[start:number]))
    except tomllib.TOMLDecodeError:
        return start < number
    return False


def _own_end(lines: list[str], start: int, end: int) -> int:
    """Where a table's last line ends: comments and blank lines after it belong to the next one."""
    at = end
    while at > start + 1 and (not lines[at - 1].strip() or lines[at - 1].lstrip().startswith("#")):
        at -= 1
    return at


def _changed(lines: list[str], band: ArenaBand) -> str:
    """The table's lines with this band's values; what is not a key of it stays."""
    values: dict[str, object] = {
        "works_bytes": list(band.works_bytes),
        "fails_bytes": list(band.fails_bytes),
        "shipped_bytes": band.shipped_bytes,
        "untested_bytes": list(band.untested_bytes),
        "source": band.source,
    }
    if band.standing is not Standing.MEASURED:
        values["standing"] = band.standing.value
    out: list[str] = []
    number = 0
    while number < len(lines):
        match = re.match(r"\s*(\w+)\s*=", lines[number])
        if match is None or match[1] not in _ORDER:
            out.append(lines[number])
            number += 1
            continue
        end = number + 1
        while not _whole("".join(lines[number:end])) and end < len(lines):
            end += 1
        if match[1] in values:
            above, behind = _comments(lines[number:end])
            out += above
            out.append(f"{match[1]} = {_toml(values.pop(match[1]))}{behind}\n")
        number = end
    if out and not out[-1].endswith("\n"):
        out[-1] += "\n"
    out += [f"{key} = {_toml(values[key])}\n" for key in _ORDER if key in values]
    return "".join(out)


def _whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _comments(lines: list[str]) -> tuple[list[str], str]:
    """The comments within a value of several lines, as lines, and the one behind its end."""
    text = "".join(lines)
    value = tomllib.loads(text)
    last = lines[-1].rstrip("\r\n")
    behind = ""
    for match in re.finditer(r"\s*#", last):
        # Cut at a comment's mark the value is the same; at one within a string it is none.
        cut = "".join(lines[:-1]) + last[: match.start()]
        if _whole(cut) and tomllib.loads(cut) == value:
            behind = last[match.start() :]
            break
    above = []
    if isinstance(next(iter(value.values())), list):
        above = [each[each.index("#") :] for each in lines[:-1] if "#" in each]
    return above, behind


def _toml(value: object) -> str:
    """A value as TOML: a basic string, a whole number, or a list of whole numbers."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def _require_only_this_changed(
    before: Board, new: str, core_version: str, measured: ArenaBand
) -> None:
    with tempfile.TemporaryDirectory(prefix="hil-record-") as folder:
        path = Path(folder) / before.path.name
        path.write_text(new, encoding="utf-8")
        after = load_board(path)
    expected = replace(
        before,
        path=after.path,
        core_versions=tuple(
            core
            if core.version != core_version
            else replace(
                core,
                arenas=(
                    *(measured if each.sketch == measured.sketch else each for each in core.arenas),
                    *([measured] if core.arena(measured.sketch) is None else []),
                ),
            )
            for core in before.core_versions
        ),
    )
    if after != expected:
        raise UsageError(
            f"the band cannot be written into {before.path.name!r} without changing more than it",
            remedy="write the band there by hand, from the output of --json",
        )
