"""What arduino-cli says that it built, held against what was asked and what the board's data says.

A core of another version, a library that is missing or too old, is a fault of the bench's set-up.
A ceiling that the core's packaging changed is an alert: it is told with both numbers and fails
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.arduino import footprint
from harness.arduino.core_home import CoreHome
from harness.arduino.footprint import Footprint
from harness.boards.board import Board, CoreVersion
from harness.errors import ToolError
from harness.machine.requirement import read_version


@dataclass(frozen=True)
class UsedLibrary:
    """An Arduino library that went into an image: its name, version and folder."""

    name: str
    version: str
    install_dir: str


@dataclass(frozen=True)
class BuildReport:
    """``builder_result`` of one compile, checked.

    ``properties`` are the build properties that matter here.
    """

    core_version: str
    platform_dir: str
    footprint: Footprint
    libraries: tuple[UsedLibrary, ...]
    alerts: tuple[str, ...]
    upload_extension: str


def read_report(built: Mapping[str, object], board: Board, core: CoreHome | None) -> BuildReport:
    """Read and check what one compile reported.

    Raises :class:`ToolError` when it used another core than asked, reported no sizes, or a library
    that the core needs is missing or too old.
    """
    platform = built.get("board_platform")
    known: Mapping[str, object] = platform if isinstance(platform, dict) else {}
    version, folder = str(known.get("version", "")), str(known.get("install_dir", ""))
    libraries = used_libraries(built.get("used_libraries"))
    properties = build_properties(built.get("build_properties"))
    sizes = footprint.read_footprint(built.get("executable_sections_size"))
    alerts: tuple[str, ...] = ()
    if core is not None:
        require_platform(version, folder, core)
        data = board.core_version(core.version)
        require_libraries(libraries, data, board.name)
        alerts = ceiling_alerts(properties, data, board.name)
    return BuildReport(
        core_version=version,
        platform_dir=folder,
        footprint=sizes,
        libraries=libraries,
        alerts=alerts,
        upload_extension=properties.get("upload.extension", ""),
    )


def used_libraries(listed: object) -> tuple[UsedLibrary, ...]:
    """From ``builder_result.used_libraries``, which is absent where there are none."""
    entries: Sequence[object] = listed if isinstance(listed, list) else ()
    return tuple(
        UsedLibrary(
            name=str(each.get("name", "")),
            version=str(each.get("version", "")),
            install_dir=str(each.get("install_dir", "")),
        )
        for each in entries
        if isinstance(each, dict)
    )


def build_properties(listed: object) -> Mapping[str, str]:
    """From ``builder_result.build_properties``, a list of ``key=value``."""
    entries: Sequence[object] = listed if isinstance(listed, list) else ()
    pairs = (each.partition("=") for each in entries if isinstance(each, str))
    return {key: value for key, _, value in pairs}


def require_platform(version: str, folder: str, core: CoreHome) -> None:
    """Raise :class:`ToolError` when another platform was used than the one asked for."""
    wanted = core.platform_path
    if version == core.version and Path(folder).resolve() == wanted.resolve():
        return
    raise ToolError(
        f"arduino-cli compiled with core {core.platform} {version or 'of no version'} in"
        f" {folder!r}, not with {core.version} in {str(wanted)!r}",
        remedy=f"remove the other one, or delete {core.home} and run 'hil core install"
        f" {core.version}'",
    )


def require_libraries(used: Sequence[UsedLibrary], core: CoreVersion, board: str) -> None:
    """Raise :class:`ToolError` when a library that the core needs is not there, or too old."""
    for wanted in core.libraries:
        found = [each for each in used if each.name == wanted.name]
        if not found:
            raise missing_library(wanted.name, board)
        have, least = read_version(found[0].version), read_version(wanted.least_version)
        if have is None or (least is not None and have < least):
            raise ToolError(
                f"board {board!r} was compiled with {wanted.name} {found[0].version!r} from"
                f" {found[0].install_dir!r}; needed is {wanted.least_version} or later",
                remedy=f"install the newer one: 'hil core install {core.version}'",
                evidence=(f"needed because: {wanted.source}",),
            )


def missing_library(name: str, board: str, evidence: tuple[str, ...] = ()) -> ToolError:
    """A library that every sketch for the board needs was not found."""
    return ToolError(
        f"{name} is missing, without which no sketch compiles for board {board!r}",
        remedy="'hil core install' installs it together with the board's core",
        evidence=evidence,
    )


def ceiling_alerts(properties: Mapping[str, str], core: CoreVersion, board: str) -> tuple[str, ...]:
    """One sentence for each ceiling that the build and the board's data disagree on."""
    pairs = (
        ("flash", "upload.maximum_size", core.flash_bytes),
        ("RAM", "upload.maximum_data_size", core.ram_bytes),
    )
    return tuple(
        f"core {core.version} of board {board!r} reports a {what} ceiling of"
        f" {properties.get(key) or 'no'} B ({key}), the board's data says {known} B"
        for what, key, known in pairs
        if properties.get(key) != str(known)
    )
