"""Compile the library once for each (library, platform, board) and link it ever after.

arduino-cli compiles all 358 sources for every new sketch: 143 s.  Its objects, gathered into one
archive, link in 1.5 s to the same bytes.  On the bench's own platform the archive is part of a
copy of the library with ``precompiled=full``; the recipe of another core would link that and drop
the kernels' registrations, so there the copy holds headers only, and the archive goes to the linker
whole.  The source build stays the reference: the archive is accepted only when the same sketch
linked from it has the same sections and symbols, each of the same size.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from harness import process
from harness.arduino import sketch_pch
from harness.arduino.build import LIBRARY_NAME, Compiled, LinkLibrary, invoke, platform_key
from harness.arduino.cli import ArduinoCli
from harness.arduino.elf import image_shape
from harness.arduino.pch import compile_properties
from harness.arduino.sketch import read_sketch, stage
from harness.boards.board import Board
from harness.errors import ToolError
from harness.library.resolve import Library
from harness.machine.tool import archiver
from harness.paths import cache_dir, sketches_dir
from harness.storage import cache
from harness.storage.digest import parts_digest, text_digest
from harness.storage.lock import hold

_COMPILED_SUFFIXES = frozenset({".c", ".cpp", ".cc", ".cxx", ".S", ".s"})
REFERENCE_SKETCH = "reference"

PADDING_BYTES = 64
"""Most by which a section may differ where the archive is linked before the sketch, not after it:
the order of objects decides the padding between them.  Every symbol still has to be the same."""


def link_library(
    cli: ArduinoCli,
    board: Board,
    library: Library,
    *,
    progress: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> LinkLibrary:
    """The library in the form that sketches link: precompiled, or as it is where it has no source.

    Raises :class:`ToolError` when the precompiled archive and the source build differ, and what
    :func:`harness.arduino.build.invoke` raises when the library does not compile.
    """
    if library.provenance.origin == "wheel":
        return _for_sketches(
            cli, board, LinkLibrary(library.path, library.provenance.digest, precompiled=True)
        )
    depends_on = platform_key(board, cli.core, objects_only=True)
    key = text_digest("\0".join((library.provenance.digest, board.fqbn, depends_on, _recipe_key())))

    def make(folder: Path) -> None:
        progress(f"compiling the library for {board.name}, once: about two minutes")
        _precompile(folder, cli, board, library, key, depends_on)

    return _for_sketches(cli, board, _linked(cache.entry("precompiled", key, make), key, board))


def _for_sketches(cli: ArduinoCli, board: Board, library: LinkLibrary) -> LinkLibrary:
    key = parts_digest(library.key, board.fqbn, platform_key(board, cli.core), str(cli.home))
    flags = {"compiler.prefix_map": f"-ffile-prefix-map={library.path}={LIBRARY_NAME}"}
    return replace(library, pch=sketch_pch.prepare(cli, board, library.path, key, flags))


def _linked(folder: Path, key: str, board: Board) -> LinkLibrary:
    """The library of an entry in the form that sketches for the board link."""
    path, archive = folder / LIBRARY_NAME, _archive_path(folder, board)
    inside = path in archive.parents
    return LinkLibrary(path, key, precompiled=inside, archive=None if inside else archive)


def _archive_path(folder: Path, board: Board) -> Path:
    name = f"lib{LIBRARY_NAME}.a"
    if board.fqbn.startswith("hil:"):
        # build.mcu of boards.txt: arduino-cli looks for the archive in the folder of that name.
        return folder / LIBRARY_NAME / "src" / board.core / name
    return folder / name


def discovery_properties(board: Board, library: Path) -> dict[str, str]:
    """Build properties that spare the library's own sources the search for other libraries.

    arduino-cli preprocesses every source once, only to learn which other libraries it needs; the
    bench's user folder has none, so there is nothing to find, and a header that is missing is
    reported by the compiler in the same words.  A core of someone else's keeps its own recipe.
    """
    if not board.fqbn.startswith("hil:"):
        return {}
    skip = f'case "$1" in "{library}"/*) exit 0;; esac; shift; exec "$@"'
    return {"compiler.preproc.wrapper": f"sh -c '{skip}' discovery \"{{source_file}}\""}


def _recipe_key() -> str:
    own = (Path(__file__).with_name(name) for name in ("precompiled.py", "pch.py", "pch_plan.py"))
    return text_digest("".join(path.read_text(encoding="utf-8") for path in own))


def _precompile(
    folder: Path, cli: ArduinoCli, board: Board, library: Library, key: str, depends_on: str
) -> None:
    # One stable place for each board: an unchanged source then hits the compiler cache, which
    # another path of the library would miss.
    work = cache_dir() / "build" / board.name / "library"
    with hold(work.with_suffix(".lock"), purpose=f"compiling the library for {board.name}"):
        source = work / LIBRARY_NAME
        _mirror(library.path, source)
        staged = stage(read_sketch(sketches_dir() / REFERENCE_SKETCH), work / "sketch")
        build_path = work / "out"
        from_source = invoke(
            cli,
            board,
            staged,
            build_path,
            LinkLibrary(source, key, precompiled=False),
            sketch=REFERENCE_SKETCH,
            properties={
                **discovery_properties(board, source),
                **compile_properties(board, source, work / "pch", depends_on),
            },
        )
        reference = build_path / f"{REFERENCE_SKETCH}.ino.elf"
        archive = _archive_path(folder, board)
        target = folder / LIBRARY_NAME
        _copy_headers(source, target, precompiled=target in archive.parents)
        link_map = build_path / f"{REFERENCE_SKETCH}.ino.map"
        objects = _objects(link_map, build_path / "libraries" / LIBRARY_NAME, board)
        _archive(objects, archive, board)
        _compare(folder, cli, board, staged, work, from_source, reference, len(objects))


def _mirror(origin: Path, target: Path) -> None:
    """Make ``target`` equal to ``origin``, keeping the files that are already equal."""
    wanted = {path.relative_to(origin) for path in origin.rglob("*") if path.is_file()}
    if target.is_dir():
        for path in sorted(target.rglob("*"), reverse=True):
            if path.is_file() and path.relative_to(target) not in wanted:
                path.unlink()
    for relative in sorted(wanted):
        destination = target / relative
        content = (origin / relative).read_bytes()
        if not destination.is_file() or destination.read_bytes() != content:
            destination.parent.mkdir(parents=True, exist_ok=True)
            destination.write_bytes(content)


def _copy_headers(source: Path, target: Path, *, precompiled: bool) -> None:
    def compiled(_: str, names: Iterable[str]) -> set[str]:
        return {name for name in names if Path(name).suffix in _COMPILED_SUFFIXES}

    shutil.copytree(source / "src", target / "src", ignore=compiled)
    properties = (source / "library.properties").read_text(encoding="utf-8", errors="replace")
    kept = [
        line
        for line in properties.splitlines()
        if not re.match(r"\s*(precompiled|dot_a_linkage)\s*=", line)
    ]
    # No ldflags=: arduino-cli names the archive itself, and a second -l would link it twice.
    own = ["precompiled=full"] if precompiled else []
    (target / "library.properties").write_text("\n".join([*kept, *own, ""]), encoding="utf-8")


def _objects(link_map: Path, built: Path, board: Board) -> list[Path]:
    """The library's objects in the order in which the source build linked them.

    Another order gives the same code at other addresses, which could not be compared.  Where the
    command line grows too long, arduino-cli links one ``objs.a`` for each folder instead.
    """
    found: list[Path] = []
    for line in link_map.read_text(encoding="utf-8", errors="replace").splitlines():
        path = Path(line.removeprefix("LOAD "))
        if not line.startswith("LOAD ") or built not in path.parents:
            continue
        if path.suffix == ".a":
            listed = process.run((str(archiver(board)), "t", str(path)), timeout_s=60)
            found.extend(path.parent / name for name in listed.stdout.split())
        else:
            found.append(path)
    return found


def _archive(objects: list[Path], archive: Path, board: Board) -> None:
    if not objects:
        raise ToolError(
            f"arduino-cli compiled no source of the library for board {board.name!r}",
            remedy="check that the library's src/ holds sources",
        )
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Never "r": three pairs of kernels share a file name, and one of each would be replaced.  No
    # index: the archive is only ever linked whole.
    listing = archive.with_suffix(".objects")
    listing.write_text("\n".join(f'"{path}"' for path in objects), encoding="utf-8")
    done = process.run((str(archiver(board)), "qcS", str(archive), f"@{listing}"), timeout_s=120)
    listing.unlink()
    if not done.ok:
        raise ToolError(
            f"{Path(done.argv[0]).name} could not gather the library's objects",
            remedy="look at its message below",
            evidence=done.tail(),
        )


def _compare(
    folder: Path,
    cli: ArduinoCli,
    board: Board,
    staged: Path,
    work: Path,
    from_source: Compiled,
    reference: Path,
    objects: int,
) -> None:
    before = image_shape(reference)
    build_path = work / "linked"
    shutil.rmtree(build_path, ignore_errors=True)
    library = _linked(folder, "", board)
    linked = invoke(cli, board, staged, build_path, library, sketch=REFERENCE_SKETCH)
    after = image_shape(build_path / f"{REFERENCE_SKETCH}.ino.elf")
    sizes = {name: (before.get(name), after.get(name)) for name in {*before, *after}}
    padding_bytes = 0 if library.archive is None else PADDING_BYTES
    different = {
        name: pair for name, pair in sizes.items() if not _same(name, *pair, padding_bytes)
    }
    more_bytes = abs(linked.footprint.flash_bytes - from_source.footprint.flash_bytes)
    more_bytes += abs(linked.footprint.ram_bytes - from_source.footprint.ram_bytes)
    if different or more_bytes > 2 * padding_bytes:
        raise ToolError(
            f"linking the precompiled library for {board.name!r} gives another image than"
            f" compiling it: {len(different)} sections and symbols differ",
            remedy="report it: figures from the precompiled library cannot be trusted",
            evidence=(
                f"from source: {from_source.footprint}",
                f"precompiled: {linked.footprint}",
                *(f"{name}: {a} != {b}" for name, (a, b) in sorted(different.items())[:10]),
            ),
        )
    (folder / "reference.json").write_text(
        json.dumps(
            {
                "sketch": REFERENCE_SKETCH,
                "objects": objects,
                "flash_bytes": from_source.footprint.flash_bytes,
                "ram_bytes": from_source.footprint.ram_bytes,
                "sections": {
                    name.removeprefix("section "): int(size)
                    for name, size in before.items()
                    if name.startswith("section ")
                },
            },
            indent=1,
        ),
        encoding="utf-8",
    )
    shutil.rmtree(build_path, ignore_errors=True)


def _same(name: str, before: str | None, after: str | None, padding_bytes: int) -> bool:
    """Whether a symbol has the same sizes, or a section the same but for padding."""
    if before == after:
        return True
    if before is None or after is None or not name.startswith("section "):
        return False
    return abs(int(before) - int(after)) <= padding_bytes
