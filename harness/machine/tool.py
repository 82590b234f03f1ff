"""External programs: where each is, which version it is, and whether that version will do.

Nothing is looked for when this module is imported.  A program is found on PATH; arduino-cli also
in the bench's cache, where the set-up puts the one it builds.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.boards.board import Board, Lane
from harness.errors import CapabilityMissing, ToolError
from harness.machine.requirement import (
    ARDUINO_CLI,
    CROSS_CXX,
    CTAGS,
    HOST_CXX,
    QEMU,
    Requirement,
    read_version,
)
from harness.paths import cache_dir

VERSION_TIMEOUT_S = 20.0
"""Seconds a program is given to print its version."""

ARDUINO_CLI_VERSION = "1.5.1"
"""The version that the set-up builds where PATH has none in the supported range."""


@dataclass(frozen=True)
class Tool:
    """A program that was found: its path and the version it prints."""

    program: str
    path: Path
    version: str


def find(requirement: Requirement) -> Tool:
    """The program on PATH, in a version that will do.

    Raises :class:`CapabilityMissing` when there is none, :class:`ToolError` when its version
    cannot be read or is outside the range.
    """
    path = shutil.which(requirement.program)
    if path is None:
        raise CapabilityMissing(
            f"{requirement.program!r} is not on PATH", remedy=requirement.remedy
        )
    return _checked(requirement, Path(path))


def find_arduino_cli() -> Path:
    """The arduino-cli on PATH if it is in the supported range, else the one in the cache.

    Raises :class:`ToolError` that says why each one found was refused.
    """
    return arduino_cli().path


def arduino_cli() -> Tool:
    """As :func:`find_arduino_cli`, with its version."""
    refused: list[str] = []
    # Without this even "version" makes a folder in the user's home.
    environment = {
        **os.environ,
        "ARDUINO_DIRECTORIES_DATA": str(cache_dir() / "arduino" / "version"),
    }
    on_path = shutil.which(ARDUINO_CLI.program)
    for candidate in (None if on_path is None else Path(on_path), built_arduino_cli()):
        if candidate is None or not candidate.is_file():
            continue
        try:
            return _checked(ARDUINO_CLI, candidate, environment)
        except ToolError as error:
            refused.append(error.message)
    raise ToolError(
        f"no arduino-cli that will do ({ARDUINO_CLI.range_text}) on PATH or in the cache",
        remedy=f"run 'make demo', which builds {ARDUINO_CLI_VERSION}, or put one on PATH",
        evidence=tuple(refused),
    )


def built_arduino_cli() -> Path:
    """Where the set-up puts the arduino-cli that it builds."""
    return cache_dir() / "arduino-cli" / ARDUINO_CLI_VERSION / "arduino-cli"


def find_ctags() -> Path | None:
    """Arduino's ctags on PATH; None where arduino-cli has to use one of its own."""
    found = shutil.which(CTAGS.program)
    return None if found is None else Path(found)


def archiver(board: Board) -> Path:
    """The ``ar`` that goes with the board's compiler.

    Raises :class:`CapabilityMissing` when it is not on PATH.
    """
    program, package = ("ar", "binutils")
    if board.lane is not Lane.HOST:
        program, package = ("arm-none-eabi-ar", "binutils-arm-none-eabi")
    found = shutil.which(program)
    if found is None:
        raise CapabilityMissing(
            f"{program!r} is not on PATH",
            remedy=f"install the Debian or Ubuntu package {package!r}; 'make demo' does so",
        )
    return Path(found)


def toolchain_identity(board: Board) -> str:
    """Text that changes when the board's compiler or C library is replaced.

    From file names, sizes and times, so that it costs no process; an unknown compiler is empty.
    """
    requirement = HOST_CXX if board.lane is Lane.HOST else CROSS_CXX
    found = shutil.which(requirement.program)
    if found is None:
        return ""
    compiler = Path(os.path.realpath(found))
    parts = [compiler]
    if requirement is CROSS_CXX:
        parts += sorted(compiler.parent.parent.glob("lib/picolibc/arm-none-eabi/lib/*.a"))
    return "\n".join(f"{part} {part.stat().st_size} {part.stat().st_mtime_ns}" for part in parts)


def find_picolibc(compiler: Tool) -> Path:
    """picolibc's specs file, as the cross compiler finds it.

    Raises :class:`CapabilityMissing` when it is not installed.
    """
    specs = _asked_of(compiler, ("-print-file-name=picolibc.specs",))
    if not specs.is_absolute():
        raise CapabilityMissing(
            f"{compiler.program!r} has no picolibc, without which %zu and %lld do not print",
            remedy="install the Debian or Ubuntu package 'picolibc-arm-none-eabi';"
            " 'make demo' does so",
        )
    return specs


def find_picolibc_libstdcxx(compiler: Tool) -> Path:
    """The libstdc++ that was built for picolibc.

    The compiler's own search finds newlib's first, so it is looked for in the folder that
    picolibc's specs name.  Raises :class:`CapabilityMissing` when it is not installed.
    """
    text = find_picolibc(compiler).read_text(encoding="utf-8", errors="replace")
    for root in sorted(set(re.findall(r":(/[^\s;}]+)/include\b", text))):
        if (library := Path(root) / "lib" / "libstdc++.a").is_file():
            return library
    raise CapabilityMissing(
        f"{compiler.program!r} has no libstdc++ for picolibc",
        remedy="install the Debian or Ubuntu package 'libstdc++-arm-none-eabi-picolibc';"
        " 'make demo' does so",
    )


def qemu_machines(qemu: Tool) -> frozenset[str]:
    """The machines this QEMU emulates, by name.  Raises :class:`ToolError` when it fails."""
    done = process.run((str(qemu.path), "-machine", "help"), timeout_s=VERSION_TIMEOUT_S)
    if not done.ok:
        raise ToolError(
            f"{str(qemu.path)!r} cannot list its machines: it exited with {done.returncode}",
            remedy=QEMU.remedy,
            evidence=done.tail(),
        )
    return frozenset(line.split()[0] for line in done.stdout.splitlines()[1:] if line.strip())


def _checked(
    requirement: Requirement, path: Path, environment: Mapping[str, str] | None = None
) -> Tool:
    done = process.run(
        (str(path), *requirement.version_arguments),
        timeout_s=VERSION_TIMEOUT_S,
        env=environment,
    )
    found = re.search(requirement.version_pattern, done.stdout + done.stderr, re.M)
    if not done.ok or found is None:
        raise ToolError(
            f"{str(path)!r} does not say its version: it exited with {done.returncode}",
            remedy=requirement.remedy,
            evidence=done.tail(),
        )
    text = found[1]
    numbers = read_version(text)
    too_old = requirement.least is not None and (numbers is None or numbers < requirement.least)
    too_new = requirement.below is not None and (numbers is None or numbers >= requirement.below)
    if too_old or too_new:
        raise ToolError(
            f"{str(path)!r} is version {text!r}; needed is {requirement.range_text}",
            remedy=requirement.remedy,
            evidence=(requirement.reason,),
        )
    return Tool(program=requirement.program, path=path, version=text)


def _asked_of(compiler: Tool, arguments: tuple[str, ...]) -> Path:
    done = process.run((str(compiler.path), *arguments), timeout_s=VERSION_TIMEOUT_S)
    return Path(done.stdout.strip())
