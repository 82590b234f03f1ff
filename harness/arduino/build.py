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

from harness.arduino import compile_failure, core_objects, sketch_pch
from harness.arduino.build_report import UsedLibrary, read_report
from harness.arduino.cli import (
    ArduinoCli,
    compile_arguments,
    failure_text,
    read_json,
)
from harness.arduino.core_home import CoreHome
from harness.arduino.elf import is_whole, symbol_address
from harness.arduino.footprint import Footprint
from harness.arduino.link_mode import is_dynamic, require_static
from harness.arduino.sketch import (
    NONCE_DIGITS,
    NONCE_FILE,
    NONCE_SYMBOL,
    Sketch,
    nonce_source,
    refuse_profile,
    stage,
)
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
    """An Arduino library to compile against; ``key`` stands for its whole content.

    ``precompiled`` is whether arduino-cli links an archive inside it.  ``archive`` is one beside
    it, given to the linker whole: for a core whose recipe would drop the library's registrations.
    ``pch`` is the folder of its header, precompiled (:mod:`harness.arduino.sketch_pch`).
    """

    path: Path
    key: str
    precompiled: bool
    archive: Path | None = None
    pch: Path | None = None


@dataclass(frozen=True)
class Firmware:
    """A compiled sketch.  ``folder`` holds the files that arduino-cli uploads.

    ``symbols`` is the ELF that names functions and lines; ``nonce_address`` is where in the chip's
    memory the nonce lies, for boards whose memory can be read.  ``alerts`` are sentences about what
    the build reported and the board's data does not expect.
    """

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
    symbols: Path | None = None
    nonce_address: int | None = None
    libraries: tuple[UsedLibrary, ...] = ()
    alerts: tuple[str, ...] = ()
    standin: bool = False


def nonce_of(key: str) -> str:
    """The build nonce: the device reports it, so that an earlier firmware is not believed."""
    return key[:NONCE_DIGITS]


def firmware_key(
    board: Board, sketch: Sketch, library: LinkLibrary | None, core: CoreHome | None = None
) -> str:
    """A digest of everything that goes into the image."""
    return text_digest(
        "\0".join(
            (
                board.fqbn,
                sketch.digest,
                library.key if library is not None else "no library",
                platform_key(board, core),
            )
        )
    )


_OBJECT_INPUTS = frozenset({".h", ".txt"})
"""What of a platform goes into a library's objects: the core's headers, and the recipes."""


def platform_key(board: Board, core: CoreHome | None = None, *, objects_only: bool = False) -> str:
    """A digest of the board's platform and toolchain, which every image depends on.

    ``objects_only`` leaves out what a library's objects do not depend on, the core's sources and
    the linker scripts: a change there links anew and compiles no library.  ``core`` is one that is
    not the bench's own.
    """
    own = ""
    if core is not None:
        kind = "stand-in" if core.virtual else "real"
        own = f"{kind}\0{core.objects_key if objects_only else core.image_key}"
    elif board.fqbn.startswith("hil:"):
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
    allow_dynamic: bool = False,
) -> Firmware:
    """The firmware of ``sketch``, from the cache where nothing changed.

    ``headers`` gives the generated files for a nonce.  Raises :class:`DutFailure` when the sketch
    or the library is wrong, :class:`ToolError` when the tools are, and :class:`UsageError` before
    compiling for a dynamic link, unless ``allow_dynamic``, and for a sketch with a profile.
    """
    if not allow_dynamic:
        require_static(board)
    refuse_profile(sketch.source)

    def files(nonce: str) -> Sketch:
        carried = {NONCE_FILE: nonce_source(nonce)} if board.linux_side is not None else {}
        return sketch.with_files({**headers(nonce), **carried})

    key = firmware_key(board, files(""), library, cli.core)
    nonce = nonce_of(key)
    made: list[bool] = []

    def make(folder: Path) -> None:
        made.append(True)
        progress(f"compiling {sketch.name} for {board.name}")
        _compile_into(folder, cli, board, files(nonce), library)

    folder = cache.entry("firmware", key, make)
    record = _read_record(folder)
    symbols = folder / f"{sketch.name}.ino_debug.elf"
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
        symbols=symbols if symbols.is_file() else folder / f"{sketch.name}.ino.elf",
        nonce_address=record.get("nonce_address"),
        libraries=tuple(UsedLibrary(**each) for each in record.get("libraries", ())),
        alerts=tuple(record.get("alerts", ())),
        standin=cli.core is not None and cli.core.virtual,
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


_PRODUCTS = (".elf", ".bin", ".hex", ".map", "_debug.elf")


def _compile_into(
    folder: Path, cli: ArduinoCli, board: Board, sketch: Sketch, library: LinkLibrary | None
) -> None:
    name = board.name if cli.core is None else f"{board.name}-{cli.core.build_name}"
    work = cache_dir() / "build" / name / sketch.name
    with hold(work.with_suffix(".lock"), purpose=f"compiling {sketch.name} for {board.name}"):
        staged = stage(sketch, work / "sketch")
        build_path = work / "out"
        result = invoke(cli, board, staged, build_path, library, sketch=sketch.name)
        record: dict[str, object] = {
            "core_version": result.core_version,
            "footprint": asdict(result.footprint),
            "command": result.command,
            "library": result.library,
            "libraries": [asdict(each) for each in result.libraries],
            "alerts": result.alerts,
        }
        uploaded = f".{result.upload_extension}" if result.upload_extension else ""
        for suffix in (*_PRODUCTS, *filter(None, (uploaded,))):
            product = build_path / f"{sketch.name}.ino{suffix}"
            if product.is_file():
                shutil.copyfile(product, folder / product.name)
                shutil.copymode(product, folder / product.name)
    elf = folder / f"{sketch.name}.ino.elf"
    if not elf.is_file():
        raise ToolError(
            f"arduino-cli reported success for {sketch.name!r} but left no ELF in {build_path}",
            remedy="check the platform's recipe.c.combine.pattern",
        )
    if NONCE_FILE in sketch.files:
        record["nonce_address"] = _nonce_address(elf, sketch.name)
    (folder / "build.json").write_text(json.dumps(record, indent=1), encoding="utf-8")


def _nonce_address(elf: Path, sketch: str) -> int:
    address = symbol_address(elf, NONCE_SYMBOL)
    if address is None:
        raise ToolError(
            f"the image of {sketch!r} has no {NONCE_SYMBOL}, so the board cannot be asked what it"
            " runs",
            remedy="check that the core's linker script keeps .init_array, which holds it in place",
        )
    return address


@dataclass(frozen=True)
class Compiled:
    """What one successful call of arduino-cli said."""

    core_version: str
    footprint: Footprint
    command: tuple[str, ...]
    library: str | None
    libraries: tuple[UsedLibrary, ...] = ()
    alerts: tuple[str, ...] = ()
    upload_extension: str = ""


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
    used = {**board_properties(board, staged, library), **(properties or {})}
    if library is not None and library.pch is not None:
        used.update(sketch_pch.properties(library.pch, staged, library.path))
    arguments = compile_arguments(
        fqbn=board.fqbn,
        sketch=staged,
        build_path=build_path,
        library=library.path if library is not None else None,
        properties=used,
        jobs=os.cpu_count() or 2,
    )
    core_key = _core_key(cli, board)
    with _build_path(build_path):
        if core_key is not None:
            core_objects.put(build_path, core_key)
        done = cli.run(arguments, timeout_s=COMPILE_TIMEOUT_S)
    if not done.ok:
        raise compile_failure.explain(
            failure_text(done), sketch=sketch, board=board.name, dynamic=is_dynamic(board)
        )
    if core_key is not None:
        core_objects.keep(build_path, core_key)
    report = read_json(done.stdout, command="compile")
    built = report.get("builder_result")
    if not isinstance(built, dict):
        raise ToolError(
            "'arduino-cli compile' succeeded but printed no builder_result",
            remedy="run 'hil doctor' to check which arduino-cli is used",
        )
    # First: where a profile hid the library, what else it reports is the profile's as well.
    linked = _used_library(built.get("used_libraries"), library)
    checked = read_report(built, board, cli.core)
    return Compiled(
        core_version=checked.core_version,
        footprint=checked.footprint,
        command=done.argv,
        library=linked,
        libraries=checked.libraries,
        alerts=checked.alerts,
        upload_extension=checked.upload_extension,
    )


def _core_key(cli: ArduinoCli, board: Board) -> str | None:
    """What the core's objects depend on; None for a core of someone else's, left to arduino-cli."""
    if not board.fqbn.startswith("hil:") and (cli.core is None or not cli.core.virtual):
        return None
    # Where the core lies is in its objects: another checkout of the bench has another home.
    return text_digest("\0".join((str(cli.home), board.fqbn, platform_key(board, cli.core))))


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
    """Build properties that make an image independent of where the sketch and the library lie.

    ``__FILE__`` puts absolute paths into it.  The bench's platform has a property of its own; a
    core of someone else's gets the maps, and the library's archive, through the properties that
    Arduino's platforms leave empty for their users.
    """
    maps = [f"-ffile-prefix-map={staged}=sketch"]
    if library is not None:
        maps.append(f"-ffile-prefix-map={library.path}={LIBRARY_NAME}")
    flags = " ".join(f'"{each}"' if " " in each else each for each in maps)
    if board.fqbn.startswith("hil:"):
        return {"compiler.prefix_map": " ".join(maps)}
    properties = {"compiler.c.extra_flags": flags, "compiler.cpp.extra_flags": flags}
    if library is not None and library.archive is not None:
        # The real core does not put {compiler.libraries.ldflags} between --whole-archive and its
        # end: a precompiled library would link, and fail at run time with its kernels missing.
        properties["compiler.c.elf.extra_flags"] = (
            f'-Wl,--whole-archive "{library.archive}" -Wl,--no-whole-archive'
        )
    return properties


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
