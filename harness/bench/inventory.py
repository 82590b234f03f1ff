"""The bench inventory: a lab's boards as data, in one TOML file.

Every key is described in ``docs/bench-inventory.md``.  A mistake gives file, line and key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.bench.owner import WAIT_S
from harness.bench.places import inventory_file
from harness.boards.board import ResetMethod, find_board
from harness.boards.schema import Table, did_you_mean
from harness.errors import UsageError
from harness.paths import boards_dir

AFTER_FAULTS = 3
"""How many runs in a row end with a fault of the board until the bench quarantines it."""

REFERENCE = "docs/bench-inventory.md describes every key"

_SERIAL_NUMBER = re.compile(r"[!-~]{1,126}")
"""A USB string without blanks; its descriptor holds 126 characters at most."""


@dataclass(frozen=True)
class BenchBoard:
    """One board of the lab; what the file does not say is None or empty.

    ``kind`` is the name of its file in ``boards/``.  ``reset`` replaces the kind's own list.
    ``line`` is where it begins in the file.
    """

    serial_number: str
    kind: str
    port: str | None
    url: str | None
    core_version: str | None
    reset: tuple[ResetMethod, ...]
    power_command: tuple[str, ...]
    tags: tuple[str, ...]
    quarantined: str | None
    note: str | None
    line: int

    def require_local(self) -> None:
        """Raise :class:`UsageError` for a board of another machine."""
        if self.url is not None:
            raise UsageError(
                f"board {self.serial_number!r} is reached at {self.url!r}, which the bench cannot"
                " open yet",
                remedy="run the bench on the machine that the board is plugged into",
            )

    def require_core(self, version: str) -> None:
        """Raise :class:`UsageError` for a board that is kept for another version of its core."""
        if self.core_version not in (None, version):
            raise UsageError(
                f"board {self.serial_number!r} is kept for core {self.core_version!r}, and"
                f" {version!r} was asked for",
                remedy=f"give --core-version {self.core_version}, or choose another board",
            )


@dataclass(frozen=True)
class Inventory:
    """The boards of one file, in its order; ``path`` is None where there is no file.

    ``wait_s`` is how long a run waits for a board that another one has.
    """

    path: Path | None = None
    boards: tuple[BenchBoard, ...] = ()
    after_faults: int = AFTER_FAULTS
    wait_s: float = WAIT_S

    def entry(self, serial_number: str) -> BenchBoard | None:
        """The board with this serial number, or None where the file has none."""
        return next((each for each in self.boards if each.serial_number == serial_number), None)

    def of_kind(self, kind: str, *, tags: Iterable[str] = ()) -> tuple[BenchBoard, ...]:
        """Every board of a kind that has all the ``tags``, those in quarantine included."""
        return tuple(each for each in self.tagged(tags) if each.kind == kind)

    def tagged(self, tags: Iterable[str]) -> tuple[BenchBoard, ...]:
        """Every board that has all the ``tags``.

        Raises :class:`UsageError` for a tag that no board has: it would select nothing for ever.
        """
        wanted = tuple(tags)
        known = sorted({tag for each in self.boards for tag in each.tags})
        for tag in wanted:
            if tag not in known:
                raise UsageError(
                    f"no board of the bench has the tag {tag!r}{did_you_mean(tag, known)}",
                    remedy=f"use one of {', '.join(known)}" if known else self._how_to_tag(),
                )
        return tuple(each for each in self.boards if set(wanted) <= set(each.tags))

    def _how_to_tag(self) -> str:
        return f"add tags to the boards in {self.path or inventory_file()}; {REFERENCE}"


def load_inventory(path: Path | None = None, *, boards: Path | None = None) -> Inventory:
    """The inventory in ``path``, or the user's own, which may be absent.

    ``boards`` is the folder of the kinds, the bench's own by default.  Raises :class:`UsageError`
    when the file is wrong, or absent where it was named.
    """
    where = path or inventory_file()
    try:
        text = where.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if path is None:
            return Inventory()
        raise UsageError(
            f"there is no bench inventory {str(path)!r}",
            remedy=f"give --bench a file that exists; {REFERENCE}",
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the bench inventory {str(where)!r}: {error}",
            remedy="check that it is a readable UTF-8 file",
        ) from error
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{where}: this is not TOML: {error}", remedy="correct the syntax at that place"
        ) from error
    return _inventory(Table(raw, path=where, text=text), where, text, boards or boards_dir())


def _inventory(top: Table, path: Path, text: str, folder: Path) -> Inventory:
    wait_s = top.optional_whole("wait_s", most=7 * 86_400)
    quarantine = top.optional_table("quarantine")
    after_faults = AFTER_FAULTS
    if quarantine is not None:
        after_faults = quarantine.whole("after_faults", least=1, most=1000)
    tables = top.tables("board", optional=True)
    lines = _lines_of_boards(text)
    found = [
        _board(table, lines[number] if number < len(lines) else 1)
        for number, table in enumerate(tables)
    ]
    # Here, before anything is missed: a misspelt key is unknown and missing, the former says more.
    top.close()
    first: dict[str, BenchBoard] = {}
    for table, board in zip(tables, found, strict=True):
        _require(path, board)
        before = first.setdefault(board.serial_number, board)
        if before is not board:
            table.fail(
                "serial_number",
                f"is {board.serial_number!r}, as in line {before.line}",
                "remove one of the two: a board has one entry",
            )
        _check(table, board, folder)
    return Inventory(
        path=path,
        boards=tuple(found),
        after_faults=after_faults,
        wait_s=WAIT_S if wait_s is None else wait_s,
    )


def _lines_of_boards(text: str) -> list[int]:
    """Line of each ``[[board]]``; tables written in another way have none."""
    return [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if re.match(r"\s*\[\[\s*board\s*\]\]", line)
    ]


def _board(table: Table, line: int) -> BenchBoard:
    return BenchBoard(
        serial_number=table.optional_text("serial_number") or "",
        kind=table.optional_text("name") or "",
        port=table.optional_text("port"),
        url=table.optional_text("url"),
        core_version=table.optional_text("core_version"),
        reset=table.enums("reset", ResetMethod),
        power_command=table.texts("power_command", optional=True),
        tags=table.texts("tags", optional=True),
        quarantined=table.optional_text("quarantined"),
        note=table.optional_text("note"),
        line=line,
    )


def _require(path: Path, board: BenchBoard) -> None:
    for key, value in (("serial_number", board.serial_number), ("name", board.kind)):
        if not value:
            # By hand: the table would look for the line of the key, which another board may have.
            raise UsageError(
                f"{path}:{board.line}: key 'board.{key}' is missing",
                remedy=f"add it; {REFERENCE}",
            )


def _check(table: Table, board: BenchBoard, folder: Path) -> None:
    """What no single value tells: whether they exist, and whether they go together."""
    if not _SERIAL_NUMBER.fullmatch(board.serial_number):
        table.fail(
            "serial_number",
            f"is {board.serial_number!r}",
            "write it as 'arduino-cli board list --json' prints it",
        )
    names = sorted(each.stem for each in folder.glob("*.toml"))
    if board.kind not in names:
        table.fail(
            "name",
            f"is {board.kind!r}, which no board is called{did_you_mean(board.kind, names)}",
            f"give one of {', '.join(names)}",
        )
    versions = [each.version for each in find_board(board.kind, folder).core_versions]
    if board.core_version is not None and board.core_version not in versions:
        table.fail(
            "core_version",
            f"is {board.core_version!r}{did_you_mean(board.core_version, versions)}",
            f"give one of {', '.join(versions)}",
        )
    if board.port is not None and board.url is not None:
        table.fail("url", "is given beside 'port'", "keep the one by which the board is reached")
    if board.url is not None and not re.fullmatch(r"[a-z][a-z0-9+.-]*:[!-~]+", board.url):
        table.fail("url", f"is {board.url!r}", "write it as SCHEME://HOST:PORT")
    if ResetMethod.POWER in board.reset and not board.power_command:
        table.fail("reset", "has 'power'", "add power_command, or take 'power' out")
    for key, texts in (("power_command", board.power_command), ("tags", board.tags)):
        if not all(each.strip() for each in texts):
            table.fail(key, f"is {list(texts)!r}", "give texts that are not empty")
    if len(set(board.tags)) < len(board.tags):
        table.fail("tags", f"is {list(board.tags)!r}", "give each tag once")
