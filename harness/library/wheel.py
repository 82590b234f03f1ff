"""The runtime inside the executorch wheel, laid out as an Arduino library for the host board.

Headers are copied; the shared objects stay in the wheel and are linked from there.  arduino-cli
takes a library's ``ldflags`` only when it is precompiled for the board's ``build.mcu``, which a
folder of that name says.  The wheel has no ``cortex_m::`` kernels.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from harness.errors import CapabilityMissing
from harness.library.assemble import LIBRARY_FOLDER, PROVENANCE_FILE
from harness.library.provenance import LibraryProvenance, read_exporter, to_json, wheel_folder
from harness.paths import cache_dir
from harness.storage.cache import entry
from harness.storage.digest import (
    TreeFile,
    bytes_digest,
    parts_digest,
    remembered_digest,
    tree_files,
)
from harness.storage.digest import tree_digest as digest_of_tree

HOST_MCU = "native"
"""``build.mcu`` of the host board."""

OBJECTS = ("executorch_kernels_optimized", "executorch", "executorch_threadpool")
"""In link order: kernels register themselves when loaded, and nothing refers to them by name."""

_OWN = Path(__file__).parent / "host_runtime"
_C10 = "include/executorch/runtime/core/portable_type/c10"
_RECIPE = "1"


def build_from_wheel(*, progress: Callable[[str], None]) -> Path:
    """The cache entry with the library ``ExecuTorch/`` and its provenance.

    Raises :class:`CapabilityMissing` where the wheel or its runtime is not installed.
    """
    wheel = wheel_folder()
    exporter = read_exporter()
    objects = tuple(wheel / "lib" / f"lib{name}.so" for name in OBJECTS)
    missing = [path for path in objects if not path.is_file()]
    if missing:
        raise CapabilityMissing(
            f"the executorch wheel {exporter.wheel_version} has no {missing[0].name},"
            " so there is no runtime for the host board",
            remedy="install the executorch wheel for Linux, or give --executorch DIR",
        )
    headers = tree_files(wheel / "include/executorch")
    own = tree_files(_OWN)
    content = _content_digest(wheel, headers, objects)
    key = parts_digest(
        _RECIPE, str(wheel), content, _digest_of(own), json.dumps(vars(exporter), sort_keys=True)
    )

    def make(folder: Path) -> None:
        progress(f"taking the runtime of the executorch wheel {exporter.wheel_version}")
        library = folder / LIBRARY_FOLDER
        _copy(headers, library / "src/executorch")
        for part in ("c10", "torch"):
            # Included as <c10/...>, and a library's only include folder is its src.
            _copy(tree_files(wheel / _C10 / part), library / "src" / part)
        _copy(own, library / "src")
        _mark_precompiled(library, wheel / "lib", objects)
        (library / "library.properties").write_text(
            _properties(exporter.wheel_version, wheel / "lib"), encoding="utf-8"
        )
        provenance = LibraryProvenance(
            origin="wheel",
            commit=None if exporter.git_revision == "unknown" else exporter.git_revision,
            dirty=False,
            op_set="every kernel of the wheel's optimized set",
            kernels=0,
            max_kernels=None,
            exporter=exporter,
            flatc_version=None,
            flatbuffers_version=None,
            schema_source="library",
            version=_version(exporter.wheel_version),
            pin=None,
            provenance_text=None,
            digest=parts_digest(digest_of_tree(library), content),
        )
        (folder / PROVENANCE_FILE).write_text(
            json.dumps(to_json(provenance), indent=1), encoding="utf-8"
        )

    return entry("library", key, make, progress=progress)


def link_flags(folder: Path) -> str:
    """Linker arguments for the wheel's shared objects in ``folder``, as Arduino splits them.

    ``--no-as-needed``: the kernels' registration runs when their object is loaded, and an object
    that nothing refers to would not be.
    """
    names = " ".join(f"-l{name}" for name in OBJECTS)
    return (
        f'"-L{folder}" -Xlinker -rpath -Xlinker "{folder}" -Wl,--no-as-needed {names}'
        " -Wl,--as-needed"
    )


def _properties(wheel_version: str, folder: Path) -> str:
    lines = (
        "name=ExecuTorch",
        f"version={_version(wheel_version)}",
        "author=executorch-hil",
        "maintainer=executorch-hil",
        "sentence=The runtime of the installed executorch wheel, for the host board.",
        "paragraph=Made by the bench; it holds paths of this machine and is of no use elsewhere.",
        "category=Data Processing",
        "url=https://github.com/pytorch/executorch",
        "architectures=virtual",
        "includes=ExecuTorch.h",
        "precompiled=true",
        f"ldflags={link_flags(folder)}",
    )
    return "\n".join(lines) + "\n"


def _version(wheel_version: str) -> str:
    """Arduino takes no local part: ``1.5.1+cpu`` is ``1.5.1``."""
    return wheel_version.partition("+")[0]


def _mark_precompiled(library: Path, folder: Path, objects: tuple[Path, ...]) -> None:
    place = library / "src" / HOST_MCU
    place.mkdir()
    listing = "".join(f"{path.name}\n" for path in objects)
    (place / "linked.txt").write_text(f"from {folder}:\n{listing}", encoding="utf-8")


def _copy(files: tuple[TreeFile, ...], target: Path) -> None:
    for each in files:
        copy = target / each.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(each.path, copy)


def _content_digest(wheel: Path, headers: tuple[TreeFile, ...], objects: tuple[Path, ...]) -> str:
    files = (*headers, *(TreeFile(path.name, path, path.stat()) for path in objects))
    name = bytes_digest(f"{wheel}\0{sys.version}".encode())[:24]
    return remembered_digest(files, cache_dir() / "digest" / f"{name}.json")


def _digest_of(own: tuple[TreeFile, ...]) -> str:
    return parts_digest(*(each.name + "\0" + each.path.read_text("utf-8") for each in own))
