"""How a stand-in misbehaves: one TOML file, each key a fault that was seen on real boards.

``docs/uno-q-standin.md`` lists every key with what it imitates and the source.  A key that is
absent is a board that behaves there; ``times = N`` makes it behave after the N-th time.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from harness.boards.schema import Table
from harness.errors import UsageError

T = TypeVar("T")


class When(Enum):
    """The moment of a fault that happens to the port: at the next upload, or after a time."""

    UPLOAD = "upload"
    TIME = "time"


class Where(Enum):
    """Which bytes a fault hits: what reaches the port, or the remote calls on the chip's UART."""

    PORT = "port"
    UART = "uart"


class AdbState(Enum):
    """What ``adb devices`` says of the board, and ``wedged``: it answers nothing any more."""

    UNAUTHORIZED = "unauthorized"
    OFFLINE = "offline"
    NO_PERMISSIONS = "no permissions"
    ABSENT = "absent"
    TWICE = "twice"
    WEDGED = "wedged"


class Injected(Enum):
    """What comes between two prints."""

    NUL = "nul"
    BAD_UTF8 = "bad_utf8"
    TERMINAL_ESCAPES = "terminal_escapes"


@dataclass(frozen=True)
class Fault:
    """A fault that happens as often as ``times`` says; None is always."""

    times: int | None


@dataclass(frozen=True)
class Bytes(Fault):
    """One byte in each ``every_bytes`` is hit, at a place that ``seed`` decides."""

    every_bytes: int
    seed: int
    where: Where


@dataclass(frozen=True)
class Prints(Fault):
    """Each ``every_prints``-th print is hit."""

    every_prints: int


@dataclass(frozen=True)
class Torn(Fault):
    """A print longer than ``every_bytes`` arrives in pieces of it, ``pause_ms`` apart."""

    every_bytes: int
    pause_ms: int


@dataclass(frozen=True)
class After(Fault):
    """It happens once ``after_prints`` prints have passed since the board booted."""

    after_prints: int


@dataclass(frozen=True)
class Lost(After):
    """From then on, for ``for_ms``."""

    for_ms: int


@dataclass(frozen=True)
class LongLine(After):
    """A line of ``line_bytes`` bytes with no end."""

    line_bytes: int


@dataclass(frozen=True)
class Injection(After):
    """Bytes that the sketch never printed."""

    what: tuple[Injected, ...]


@dataclass(frozen=True)
class Stale(Fault):
    """What an earlier firmware said comes after an upload: ``lines``, or its own last ones."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Port(Fault):
    """Something happens to the port at an upload, or ``after_ms`` after plugging in."""

    when: When
    after_ms: int


@dataclass(frozen=True)
class AnotherBoard(Port):
    """Another board's number stands behind the port."""

    serial_number: str


@dataclass(frozen=True)
class Verify(Fault):
    """The upload is good and the tool complains; it ends with ``exit_code``."""

    exit_code: int


@dataclass(frozen=True)
class CutOff(Fault):
    """The upload ends with an error when ``percent`` of the sketch is written."""

    percent: int


@dataclass(frozen=True)
class Adb(Fault):
    """adb is in ``state`` for ``for_ms`` since plugging in (None: for good), or for N calls."""

    state: AdbState
    for_ms: int | None


@dataclass(frozen=True)
class Booting(Fault):
    """The Linux side has been up for less than it needs: adb, then its router."""

    adb_ms: int
    router_ms: int


@dataclass(frozen=True)
class Behaviour:
    """Every fault that the file asks for; a board with none behaves."""

    upload_fails: Fault | None = None
    upload_cut_off: CutOff | None = None
    upload_verify_failed: Verify | None = None
    upload_lies: Fault | None = None
    header_rejected: Fault | None = None
    another_board: AnotherBoard | None = None
    stale_output: Stale | None = None
    torn_by_reset: Fault | None = None
    router_stalls: After | None = None
    reader_lost: Lost | None = None
    bytes_dropped: Bytes | None = None
    bytes_doubled: Bytes | None = None
    bytes_garbled: Bytes | None = None
    prints_torn: Torn | None = None
    prints_reordered: Prints | None = None
    prints_repeated: Prints | None = None
    long_line: LongLine | None = None
    injected: Injection | None = None
    port_renumbered: Port | None = None
    port_gone: Port | None = None
    port_denied: Port | None = None
    adb: Adb | None = None
    linux_side_boots: Booting | None = None


def load_behaviour(path: Path | None) -> Behaviour:
    """Read the file; None is a board that behaves.

    Raises :class:`UsageError` with file, line and key when it is wrong.
    """
    if path is None:
        return Behaviour()
    try:
        text = path.read_text(encoding="utf-8")
        raw = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the behaviour file {str(path)!r}: {error}",
            remedy="name a readable TOML file; docs/uno-q-standin.md lists its keys",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path}: this is not TOML: {error}", remedy="correct the syntax at that place"
        ) from error
    top = Table(raw, path=path, text=text)
    reader = _Reader(top, raw)
    made = Behaviour(
        upload_fails=reader.read("upload_fails", _fault),
        upload_cut_off=reader.read("upload_cut_off", _cut_off),
        upload_verify_failed=reader.read("upload_verify_failed", _verify),
        upload_lies=reader.read("upload_lies", _fault),
        header_rejected=reader.read("header_rejected", _fault),
        another_board=reader.read("another_board", _another_board),
        stale_output=reader.read("stale_output", _stale),
        torn_by_reset=reader.read("torn_by_reset", _fault),
        router_stalls=reader.read("router_stalls", _after),
        reader_lost=reader.read("reader_lost", _lost),
        bytes_dropped=reader.read("bytes_dropped", _bytes),
        bytes_doubled=reader.read("bytes_doubled", _bytes),
        bytes_garbled=reader.read("bytes_garbled", _bytes),
        prints_torn=reader.read("prints_torn", _torn),
        prints_reordered=reader.read("prints_reordered", _prints),
        prints_repeated=reader.read("prints_repeated", _prints),
        long_line=reader.read("long_line", _long_line),
        injected=reader.read("injected", _injected),
        port_renumbered=reader.read("port_renumbered", _port),
        port_gone=reader.read("port_gone", _port),
        port_denied=reader.read("port_denied", _port),
        adb=reader.read("adb", _adb),
        linux_side_boots=reader.read("linux_side_boots", _booting),
    )
    top.close()
    return made


class _Keys:
    """One table of the file, with the defaults that :class:`Table` does not know."""

    def __init__(self, table: Table, raw: Mapping[str, object]) -> None:
        self.table = table
        self._raw = raw

    def whole(self, key: str, default: int, *, least: int = 0) -> int:
        found = self.optional(key, least=least)
        return default if found is None else found

    def optional(self, key: str, *, least: int = 0) -> int | None:
        if key in self._raw:
            return self.table.whole(key, least=least)
        # Asked for, so that a misspelt key finds its name.
        self.table.optional_text(key)
        return None

    @property
    def times(self) -> int | None:
        return self.optional("times", least=1)


class _Reader:
    def __init__(self, top: Table, raw: Mapping[str, object]) -> None:
        self._top = top
        self._raw = raw

    def read(self, key: str, make: Callable[[_Keys], T]) -> T | None:
        table = self._top.optional_table(key)
        raw = self._raw.get(key)
        return make(_Keys(table, raw)) if table is not None and isinstance(raw, dict) else None


def _fault(keys: _Keys) -> Fault:
    return Fault(keys.times)


def _verify(keys: _Keys) -> Verify:
    return Verify(keys.times, exit_code=keys.whole("exit_code", 0))


def _cut_off(keys: _Keys) -> CutOff:
    return CutOff(keys.times, percent=min(99, keys.whole("percent", 50)))


def _stale(keys: _Keys) -> Stale:
    return Stale(keys.times, lines=keys.table.texts("lines", optional=True))


def _after(keys: _Keys) -> After:
    return After(keys.times, after_prints=keys.whole("after_prints", 0))


def _lost(keys: _Keys) -> Lost:
    return Lost(
        keys.times,
        after_prints=keys.whole("after_prints", 0),
        for_ms=keys.whole("for_ms", 5000, least=1),
    )


def _bytes(keys: _Keys) -> Bytes:
    return Bytes(
        keys.times,
        every_bytes=keys.table.whole("every_bytes", least=2),
        seed=keys.whole("seed", 1),
        where=keys.table.optional_enum("where", Where) or Where.PORT,
    )


def _torn(keys: _Keys) -> Torn:
    return Torn(
        keys.times,
        every_bytes=keys.table.whole("every_bytes", least=1),
        pause_ms=keys.whole("pause_ms", 50),
    )


def _prints(keys: _Keys) -> Prints:
    return Prints(keys.times, every_prints=keys.whole("every_prints", 2, least=2))


def _long_line(keys: _Keys) -> LongLine:
    return LongLine(
        keys.times,
        after_prints=keys.whole("after_prints", 0),
        line_bytes=keys.whole("line_bytes", 10_000_000, least=1),
    )


def _injected(keys: _Keys) -> Injection:
    what = keys.table.enums("what", Injected) or tuple(Injected)
    return Injection(keys.times, after_prints=keys.whole("after_prints", 0), what=what)


def _port(keys: _Keys) -> Port:
    after_ms = keys.whole("after_ms", 0)
    return Port(keys.times, when=When.TIME if after_ms else When.UPLOAD, after_ms=after_ms)


def _another_board(keys: _Keys) -> AnotherBoard:
    port = _port(keys)
    number = keys.table.text("serial_number", pattern=r"[A-Za-z0-9]{1,32}")
    return AnotherBoard(port.times, port.when, port.after_ms, serial_number=number)


def _adb(keys: _Keys) -> Adb:
    state = keys.table.enum("state", AdbState)
    return Adb(keys.times, state=state, for_ms=keys.optional("for_ms", least=1))


def _booting(keys: _Keys) -> Booting:
    return Booting(keys.times, adb_ms=keys.whole("adb_ms", 0), router_ms=keys.whole("router_ms", 0))


class Turns:
    """How often each fault has happened; says whether it may happen once more."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}

    def left(self, fault: Fault | None) -> bool:
        """Whether ``fault`` is asked for and still has a turn."""
        if fault is None:
            return False
        return fault.times is None or self._taken.get(id(fault), 0) < fault.times

    def take(self, fault: Fault | None) -> bool:
        """As :meth:`left`, and the turn is used up."""
        if fault is None or not self.left(fault):
            return False
        self._taken[id(fault)] = self._taken.get(id(fault), 0) + 1
        return True
