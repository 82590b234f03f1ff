"""Why a compile failed, from what the compiler and the linker printed.

Only whole patterns count: a good build prints ``error.h`` and ``Error::Ok`` thousands of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from harness.arduino import link_mode
from harness.arduino.build_report import missing_library
from harness.errors import DutFailure, HilError, ToolError

_OVERFLOW = re.compile(
    r"region [`'](?P<region>\w+)' overflowed by (?P<bytes>\d+) bytes"
    r"|section [`'](?P<section>[\w.]+)' will not fit in region [`'](?P<region2>\w+)'"
)
_TOO_BIG = re.compile(
    r"(?P<what>text|data) section exceeds available space"
    r"|Sketch (?:too big|uses (?P<used>\d+) bytes)[^\n]*"
)
_NO_ROUTER_BRIDGE = re.compile(
    r"#error [^\n]*Arduino_RouterBridge|Arduino_RouterBridge\.h: No such file or directory"
)
_HASH_ERROR = re.compile(
    r"^(?P<where>[^\s:]+:\d+):\d+: (?:fatal )?error: #error (?P<text>.*)$", re.M
)
_NO_HEADER = re.compile(
    r"^(?P<where>[^\s:]+:\d+):\d+: fatal error: (?P<header>[^:]+): No such file or directory", re.M
)
_COMPILER = re.compile(r"^(?P<where>[^\n:]+:\d+:\d+): (?:fatal )?error: (?P<text>.*)$", re.M)
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<symbol>[^'\n]+)'")
_TWICE = re.compile(r"multiple definition of [`'](?P<symbol>[^'\n]+)'")
_DISK_FULL = re.compile(r"No space left on device|disk quota exceeded", re.I)
_ASSEMBLER = re.compile(r"^(?P<where>[^\n:]+:\d+): Error: (?P<text>.*)$", re.M)
_KILLED = re.compile(r"Killed signal terminated program|internal compiler error", re.I)
_NO_COMPILER = re.compile(r"(?:exec: )?\"?(?P<tool>[^\s\"]+)\"?: (?:executable )?file not found")
_NO_PLATFORM = re.compile(
    r"Platform '(?P<platform>[^']+)' not found|board (?P<board>\S+) not found"
)


def explain(output: str, *, sketch: str, board: str, dynamic: bool = False) -> HilError:
    """The error that a failed compile stands for: the sketch's own, or the bench's.

    ``dynamic``: it was to be linked dynamically, which is why it is too large.
    """
    too_big = _TOO_BIG.search(output) if dynamic else None
    if too_big is not None and "exceeds available space" in output:
        return link_mode.overflow(sketch, board, _around(output, too_big.start()))
    for rule in _RULES:
        found = rule(output, sketch, board)
        if found is not None:
            return found
    return ToolError(
        f"compiling {sketch!r} for board {board!r} failed and the compiler gave no reason",
        remedy="run the command from the run's folder by hand",
        evidence=_tail(output),
    )


def _disk_full(output: str, sketch: str, board: str) -> HilError | None:
    if not (found := _DISK_FULL.search(output)):
        return None
    return ToolError(
        f"the disk is full: compiling {sketch!r} for board {board!r} could not write its files",
        remedy="free space in the cache folder ('hil doctor' names it) and run again",
        evidence=_around(output, found.start()),
    )


def _overflow(output: str, sketch: str, board: str) -> HilError | None:
    found = _OVERFLOW.search(output)
    if not found:
        return None
    numbers = {
        each["region"]: int(each["bytes"]) for each in _OVERFLOW.finditer(output) if each["bytes"]
    }
    region = next(iter(numbers), found["region2"] or found["region"])
    what = "RAM" if "RAM" in region.upper() or "DATA" in region.upper() else "flash"
    by = f" by {numbers[region]} B" if region in numbers else ""
    return DutFailure(
        f"{what} overflow: {sketch!r} does not fit board {board!r}, over{by}",
        remedy="use a smaller model or arena"
        if what == "RAM"
        else "use a smaller model or op set (ROOT_OPS=), and link statically",
        evidence=_around(output, found.start()),
    )


def _too_big(output: str, sketch: str, board: str) -> HilError | None:
    found = _TOO_BIG.search(output)
    if not found or "exceeds available space" not in output:
        return None
    what = "RAM" if found["what"] == "data" else "flash"
    return DutFailure(
        f"{what} overflow: {sketch!r} is larger than board {board!r} allows",
        remedy="on the Zephyr core check link_mode=static first; else use a smaller model or op"
        " set",
        evidence=_around(output, found.start()),
    )


def _no_router_bridge(output: str, sketch: str, board: str) -> HilError | None:  # noqa: ARG001
    if not (found := _NO_ROUTER_BRIDGE.search(output)):
        return None
    return missing_library("Arduino_RouterBridge", board, _around(output, found.start()))


def _no_model(output: str, sketch: str, board: str) -> HilError | None:
    found = _HASH_ERROR.search(output)
    if not found:
        return None
    if "model.h" in found["text"]:
        return DutFailure(
            f"sketch {sketch!r} has no model.h",
            remedy="export the model and write its header into the sketch's folder",
            evidence=_around(output, found.start()),
        )
    return DutFailure(
        f"sketch {sketch!r} refuses to compile for board {board!r}: {found['text'].strip()}",
        remedy="do what the #error says",
        evidence=_around(output, found.start()),
    )


def _no_header(output: str, sketch: str, board: str) -> HilError | None:
    found = _NO_HEADER.search(output)
    if not found:
        return None
    if "/Arduino_RouterBridge/" in found["where"]:
        # The real one, which the configuration named, on a core that is not Zephyr's.
        return ToolError(
            f"the library Arduino_RouterBridge at {found['where'].rpartition(':')[0]!r} does not"
            f" compile on the core of board {board!r}: it needs {found['header']!r}",
            remedy="remove the key router_bridge from the user's configuration: the stand-in's own"
            " library then serves",
            evidence=_around(output, found.start()),
        )
    return DutFailure(
        f"sketch {sketch!r} does not compile for board {board!r}: there is no header"
        f" {found['header']!r}, included at {found['where']}",
        remedy="add the library that has it, or correct the include",
        evidence=_around(output, found.start()),
    )


def _killed(output: str, sketch: str, board: str) -> HilError | None:
    if not (found := _KILLED.search(output)):
        return None
    return ToolError(
        f"the compiler crashed or was killed while compiling {sketch!r} for board {board!r}",
        remedy="free memory and run again; a crash that repeats is the compiler's",
        evidence=_around(output, found.start()),
    )


def _compiler(output: str, sketch: str, board: str) -> HilError | None:
    for pattern in (_COMPILER, _ASSEMBLER):
        if found := pattern.search(output):
            return DutFailure(
                f"sketch {sketch!r} does not compile for board {board!r}:"
                f" {_in_sketch(found['where'], sketch)}: {found['text'].strip()}",
                remedy="correct the source at that place",
                evidence=_around(output, found.start()),
            )
    return None


def _undefined(output: str, sketch: str, board: str) -> HilError | None:
    if not (found := _UNDEFINED.search(output)):
        return None
    return DutFailure(
        f"sketch {sketch!r} does not link for board {board!r}: nothing defines {found['symbol']!r}",
        remedy="add the library or source that defines it",
        evidence=_around(output, found.start()),
    )


def _twice(output: str, sketch: str, board: str) -> HilError | None:
    if not (found := _TWICE.search(output)):
        return None
    return DutFailure(
        f"sketch {sketch!r} does not link for board {board!r}: {found['symbol']!r} is defined"
        " twice",
        remedy="remove one of the two definitions that the evidence names",
        evidence=_around(output, found.start()),
    )


def _no_compiler(output: str, sketch: str, board: str) -> HilError | None:
    if not (found := _NO_COMPILER.search(output)):
        return None
    return ToolError(
        f"{found['tool']!r} is not installed, so {sketch!r} cannot be compiled for board {board!r}",
        remedy="run 'hil doctor' to see what to install",
        evidence=_around(output, found.start()),
    )


def _no_platform(output: str, sketch: str, board: str) -> HilError | None:
    if not (found := _NO_PLATFORM.search(output)):
        return None
    return ToolError(
        f"arduino-cli does not know the platform of board {board!r}, so {sketch!r} cannot be"
        " compiled",
        remedy="delete the bench's arduino folder ('hil doctor' names it) and run again",
        evidence=_around(output, found.start()),
    )


_RULES: tuple[Callable[[str, str, str], HilError | None], ...] = (
    _disk_full,
    _killed,
    _overflow,
    _too_big,
    _no_router_bridge,
    _no_model,
    _no_header,
    _compiler,
    _undefined,
    _twice,
    _no_compiler,
    _no_platform,
)


def _in_sketch(where: str, sketch: str) -> str:
    """A place in the sketch without the folder that it was staged into."""
    return where.rpartition(f"/sketch/{sketch}/")[2]


def _around(output: str, at: int) -> tuple[str, ...]:
    line = output.count("\n", 0, at)
    lines = output.splitlines()
    return tuple(each[:300] for each in lines[max(0, line - 2) : line + 6])


def _tail(output: str) -> tuple[str, ...]:
    return tuple(line[:300] for line in output.splitlines() if line.strip())[-10:]
