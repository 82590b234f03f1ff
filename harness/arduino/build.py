"""Compile one sketch for one board with the real arduino-cli, once for each set of inputs.

A firmware is cached by the hash of everything that goes into it; the build path itself survives
between compiles, so that one changed line costs one object and one link.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.arduino import compile_failure, footprint
from harness.arduino.cli import (
    ArduinoCli,
    compile_arguments,
    failure_text,
    read_json,
)
from harness.arduino.elf import is_whole
from harness.arduino.footprint import Footprint
from harness.arduino.sketch import Sketch, stage
from harness.boards.board import Board
from harness.errors import BenchError, DutFailure, ToolError
from harness.machine.tool import toolchain_identity
from harness.paths import cache_dir, platform_dir
from harness.storage import cache
from harness.storage.digest import files_digest, text_digest, tree_files
from harness.storage.lock import hold

COMPILE_TIMEOUT_S = 900.0
"""A cold compile of the library's 358 sources took 144 s on two cores; others are slower."""

LIBRARY_NAME = "ExecuTorch"

_RUNNING = ".hil-running"
"""In a build path while arduino-cli works there."""


@dataclass(frozen=True)
class LinkLibrary:
    """An Arduino library to compile against; ``key`` stands for its whole content."""

    path: Path
    key: str
    precompiled: bool


@dataclass(frozen=True)
class Firmware:
    """A compiled sketch.  ``folder`` holds the files that arduino-cli uploads."""

    sketch: str
    board: str
    core_version: str
    key: str
    nonce: str
    folder: Path
    elf: Path
    footprint: Footprint
    command: tuple[str, ...]
    library: str | None
    cached: bool


def nonce_of(key: str) -> str:
    """The build nonce: the device reports it, so that an earlier firmware is not believed."""
    return key[:16]


def firmware_key(board: Board, sketch: Sketch, library: LinkLibrary | None) -> str:
    """A digest of everything that goes into the image."""
    return text_digest(
        "\0".join(
            (
                board.fqbn,
                sketch.digest,
                library.key if library is not None else "no library",
                platform_key(board),
            )
        )
    )


_OBJECT_INPUTS = frozenset({".h", ".txt"})
"""What of a platform goes into a library's objects: the core's headers, and the recipes."""


def platform_key(board: Board, *, objects_only: bool = False) -> str:
    """A digest of the board's platform and toolchain, which every image depends on.

    ``objects_only`` leaves out what a library's objects do not depend on, the core's sources and
    the linker scripts: a change there links anew and compiles no library.
    """
    own = ""
    if board.fqbn.startswith("hil:"):
        own = files_digest(
            each
            for each in tree_files(platform_dir() / "hil")
            if not objects_only or each.path.suffix in _OBJECT_INPUTS
        )
    return text_digest(f"{own}\0{toolchain_identity(board)}")


def compile_sketch(
    cli: ArduinoCli,
    board: Board,
    sketch: Sketch,
    library: LinkLibrary | None,
    *,
    headers: Callable[[str], Mapping[str, bytes]] = lambda nonce: {},  # noqa: ARG005
    progress: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> Firmware:
    """The firmware of ``sketch``, from the cache where nothing changed.

    ``headers`` gives the generated files for a nonce.  Raises :class:`DutFailure` when the sketch
    or the library is wrong, :class:`ToolError` when the tools are.
    """
    key = firmware_key(board, sketch.with_files(headers("")), library)
    nonce = nonce_of(key)
    made: list[bool] = []

    def make(folder: Path) -> None:
        made.append(True)
        progress(f"compiling {sketch.name} for {board.name}")
        _compile_into(folder, cli, board, sketch.with_files(headers(nonce)), library)

    folder = cache.entry("firmware", key, make)
    record = _read_record(folder)
    return Firmware(
        sketch=sketch.name,
        board=board.name,
        core_version=record["core_version"],
        key=key,
        nonce=nonce,
        folder=folder,
        elf=folder / f"{sketch.name}.ino.elf",
        footprint=Footprint(**record["footprint"]),
        command=tuple(record["command"]),
        library=record["library"],
        cached=not made,
    )


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(
            f"the cached firmware in {folder} is damaged: {error}",
            remedy=f"delete {folder} and run again",
        ) from error
    return record


def _compile_into(
    folder: Path, cli: ArduinoCli, board: Board, sketch: Sketch, library: LinkLibrary | None
) -> None:
    work = cache_dir() / "build" / board.name / sketch.name
    with hold(work.with_suffix(".lock"), purpose=f"compiling {sketch.name} for {board.name}"):
        staged = stage(sketch, work / "sketch")
        build_path = work / "out"
        result = invoke(cli, board, staged, build_path, library, sketch=sketch.name)
        record = {
            "core_version": result.core_version,
            "footprint": asdict(result.footprint),
            "command": result.command,
            "library": result.library,
        }
        for suffix in ("elf", "bin", "hex", "map"):
            product = build_path / f"{sketch.name}.ino.{suffix}"
            if product.is_file():
                shutil.copyfile(product, folder / product.name)
                shutil.copymode(product, folder / product.name)
    if not (folder / f"{sketch.name}.ino.elf").is_file():
        raise ToolError(
            f"arduino-cli reported success for {sketch.name!r} but left no ELF in {build_path}",
            remedy="check the platform's recipe.c.combine.pattern",
        )
    (folder / "build.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


@dataclass(frozen=True)
class Compiled:
    """What one successful call of arduino-cli said."""

    core_version: str
    footprint: Footprint
    command: tuple[str, ...]
    library: str | None


def invoke(
    cli: ArduinoCli,
    board: Board,
    staged: Path,
    build_path: Path,
    library: LinkLibrary | None,
    *,
    sketch: str,
    properties: Mapping[str, str] | None = None,
) -> Compiled:
    """Call arduino-cli once, with further build ``properties``, and check what it says it did."""
    arguments = compile_arguments(
        fqbn=board.fqbn,
        sketch=staged,
        build_path=build_path,
        library=library.path if library is not None else None,
        properties={**board_properties(board, staged, library), **(properties or {})},
        jobs=os.cpu_count() or 2,
    )
    with _build_path(build_path):
        done = cli.run(arguments, timeout_s=COMPILE_TIMEOUT_S)
    if not done.ok:
        raise compile_failure.explain(failure_text(done), sketch=sketch, board=board.name)
    report = read_json(done.stdout, command="compile")
    built = report.get("builder_result")
    if not isinstance(built, dict):
        raise ToolError(
            "'arduino-cli compile' succeeded but printed no builder_result",
            remedy="run 'hil doctor' to check which arduino-cli is used",
        )
    platform = built.get("board_platform")
    core_version = str(platform.get("version", "")) if isinstance(platform, dict) else ""
    used = _used_library(built.get("used_libraries"), library)
    return Compiled(
        core_version=core_version,
        footprint=footprint.read_footprint(built.get("executable_sections_size")),
        command=done.argv,
        library=used,
    )


@contextmanager
def _build_path(folder: Path) -> Iterator[None]:
    """The build path, rid of what a compile left half written when it was cut short.

    arduino-cli takes any object and archive that is newer than its sources for finished.
    """
    running = folder / _RUNNING
    if running.exists():
        for path in folder.rglob("*.[ao]"):
            if path.suffix == ".a" or not is_whole(path):
                path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    running.touch()
    yield
    # Only when the call came back, with whatever result: after an interruption it stays.
    running.unlink(missing_ok=True)


def board_properties(board: Board, staged: Path, library: LinkLibrary | None) -> dict[str, str]:
    """Build properties of our own platform; a board core of someone else's gets none.

    ``__FILE__`` puts absolute paths into the image, so flash would depend on where the sketch and
    the library lie.
    """
    if not board.fqbn.startswith("hil:"):
        return {}
    maps = [f"-ffile-prefix-map={staged}=sketch"]
    if library is not None:
        maps.append(f"-ffile-prefix-map={library.path}={LIBRARY_NAME}")
    return {"compiler.prefix_map": " ".join(maps)}


def _used_library(used: object, library: LinkLibrary | None) -> str | None:
    entries: Sequence[object] = used if isinstance(used, list) else ()
    found = [
        each for each in entries if isinstance(each, dict) and each.get("name") == LIBRARY_NAME
    ]
    if library is None or not found:
        return None
    entry = found[0]
    if Path(str(entry.get("install_dir", ""))).resolve() != library.path.resolve():
        raise ToolError(
            f"arduino-cli compiled against {entry.get('install_dir')!r}, not the library under"
            f" test in {str(library.path)!r}",
            remedy="remove default_profile from the sketch's sketch.yaml, which hides --library",
        )
    if bool(entry.get("precompiled")) != library.precompiled:
        raise ToolError(
            f"arduino-cli {'ignored' if library.precompiled else 'used'} the precompiled archive"
            f" of {str(library.path)!r}",
            remedy="delete the cache's precompiled folder and run again",
        )
    return str(library.path)


__all__ = ["Compiled", "DutFailure", "Firmware", "LinkLibrary", "compile_sketch", "invoke"]
