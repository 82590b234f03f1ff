"""An ExecuTorch checkout: is it one, which commit, what of it goes into the Arduino library.

Nothing here writes to a checkout; git is told not even to refresh its index.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.errors import CapabilityMissing, ToolError, UsageError
from harness.machine.config import how_to_configure
from harness.paths import cache_dir
from harness.storage.digest import (
    NOT_CONTENT,
    TreeFile,
    bytes_digest,
    remembered_digest,
    tree_files,
)

SCRIPT = "examples/arduino/build_arduino_library.sh"
CMSIS_NN_URL = "https://github.com/ARM-software/CMSIS-NN.git"

SOURCES = (
    "backends/cortex_m",
    "codegen",
    "examples/arduino",
    "extension/data_loader",
    "extension/runner_util",
    "kernels/portable",
    "kernels/prim_ops",
    "runtime",
    "schema",
)
"""Folders of the checkout itself that its script reads (as of cff6f4d)."""

SUBMODULES = {
    "third-party/flatbuffers": ("include", "LICENSE"),
    "third-party/flatcc": ("include", "src/runtime", "LICENSE"),
}
CMSIS_NN_PLACES = (
    "outputs/zephyrproject/modules/lib/cmsis-nn",
    "third-party/cmsis-nn",
    "backends/arm/third-party/cmsis-nn/CMSIS-NN",
)
_CMSIS_NN_PARTS = ("Source", "Include", "LICENSE")
_CMSIS_CORE_PLACES = (
    "outputs/zephyrproject/modules/hal/cmsis_6/CMSIS/Core/Include",
    "third-party/cmsis/CMSIS/Core/Include",
)
_SCHEMA_PLACES = ("cmake-out", "cmake-out-mac", "outputs/build_uno_q")
SCHEMA_HEADERS = "schema/include/executorch/schema"

GENERATED = NOT_CONTENT | {"arduino_lib"}
"""Names never taken over: the script's own output of an earlier run is no input."""

_GIT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Checkout:
    """An ExecuTorch checkout that holds everything its library script needs.

    ``parts``: the files and folders that go into the library, relative to ``path``.
    ``schema_headers``: its own generated ones, relative, or None.  ``commit`` is None without git
    history; ``changes`` are the files below ``parts`` that differ from it.
    """

    path: Path
    commit: str | None
    changes: tuple[str, ...]
    parts: tuple[str, ...]
    schema_headers: str | None
    cmsis_nn: str

    def files(self) -> tuple[TreeFile, ...]:
        """Every file that goes into the library, named relative to the checkout."""
        found: list[TreeFile] = []
        for part in self.parts:
            for each in tree_files(self.path / part, skip=GENERATED):
                name = part if each.name == "." else f"{part}/{each.name}"
                found.append(TreeFile(name, each.path, each.stat))
        return tuple(found)

    def digest(self, files: tuple[TreeFile, ...]) -> str:
        """Digest of :meth:`files`, hashed anew only when one of them was touched."""
        name = bytes_digest(os.fsencode(self.path))[:24]
        return remembered_digest(files, cache_dir() / "digest" / f"{name}.json")


def require_checkout(path: Path) -> str:
    """Raise :class:`UsageError` that says what the checkout at ``path`` lacks; gives its CMSIS-NN.

    The folder's name does not matter here: only ExecuTorch's own CMake build insists on one.
    """
    if not path.is_dir():
        raise UsageError(
            f"the ExecuTorch checkout {str(path)!r} is not a folder", remedy=how_to_configure()
        )
    if not (path / SCRIPT).is_file():
        known = (path / "runtime/executor").is_dir()
        raise UsageError(
            f"{str(path)!r} has no {SCRIPT}: it is "
            + ("older than the Arduino library" if known else "not an ExecuTorch checkout"),
            remedy="check out a commit that has it, such as the current main branch"
            if known
            else how_to_configure(),
        )
    _require_sources(path)
    return _require_cmsis_nn(path)


def open_checkout(path: Path) -> Checkout:
    """Look at the checkout at ``path`` and its history; raises as :func:`require_checkout`."""
    cmsis_nn = require_checkout(path)
    schema = next(
        (
            f"{place}/{SCHEMA_HEADERS}"
            for place in _SCHEMA_PLACES
            if (path / place / SCHEMA_HEADERS / "program_generated.h").is_file()
        ),
        None,
    )
    parts = [
        *SOURCES,
        *(f"{module}/{part}" for module, inner in SUBMODULES.items() for part in inner),
        *(f"{cmsis_nn}/{part}" for part in _CMSIS_NN_PARTS),
        *(place for place in _CMSIS_CORE_PLACES if (path / place).is_dir()),
        *([schema] if schema is not None else ()),
    ]
    return Checkout(
        path=path,
        commit=_commit(path),
        changes=_changes(path, cmsis_nn),
        parts=tuple(part for part in parts if (path / part).exists()),
        schema_headers=schema,
        cmsis_nn=cmsis_nn,
    )


def _require_sources(path: Path) -> None:
    missing = [part for part in SOURCES if not (path / part).is_dir()]
    if missing:
        raise UsageError(
            f"the checkout {str(path)!r} has no {', '.join(missing)}",
            remedy=f"restore it with: git -C {path} checkout -- {' '.join(missing)}",
        )
    empty = [
        module
        for module, inner in SUBMODULES.items()
        if not all((path / module / part).exists() for part in inner)
    ]
    if empty:
        raise UsageError(
            f"the checkout {str(path)!r} lacks the submodule {' and '.join(empty)}",
            remedy=f"run: git -C {path} submodule update --init {' '.join(empty)}",
        )


def _require_cmsis_nn(path: Path) -> str:
    for place in CMSIS_NN_PLACES:
        if (path / place / "Source").is_dir():
            return place
    target = path / "third-party/cmsis-nn"
    pin = cmsis_nn_pin(path)
    at = f" && git -C {target} checkout {pin}" if pin else ""
    # The script would fetch it in the middle of a build, which no lane of the bench may do.
    raise UsageError(
        f"the checkout {str(path)!r} has no CMSIS-NN, and its library script would download it",
        remedy=f"clone it once: git clone {CMSIS_NN_URL} {target}{at}",
    )


def cmsis_nn_pin(path: Path) -> str | None:
    """The CMSIS-NN revision that the checkout's Cortex-M backend pins, or None."""
    try:
        text = (path / "backends/cortex_m/CMakeLists.txt").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    found = re.search(r'set\(\s*CMSIS_NN_VERSION\s+"([0-9a-f]{40})"', text)
    return found[1] if found else None


def git_environment(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` so changed that git reads only, asks nothing, and fetches nothing.

    A hook's GIT_DIR and the like would point it at another repository.  The checkout may belong
    to another user (containers), and its own script is about to be run anyway.
    """
    kept = {key: value for key, value in base.items() if not key.startswith("GIT_")}
    return {
        **kept,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
        "GIT_CONFIG_KEY_1": "core.fsmonitor",
        "GIT_CONFIG_VALUE_1": "false",
        "LC_ALL": "C",
    }


def git(folder: Path, *arguments: str) -> process.Completed:
    """Run git in ``folder``, reading only; a non-zero exit is not an error here."""
    if shutil.which("git") is None:
        raise CapabilityMissing(
            "git is not installed, and a checkout's library script needs it",
            remedy="install the package 'git'",
        )
    return process.run(
        ("git", "-C", str(folder), *arguments),
        timeout_s=_GIT_TIMEOUT_S,
        env=git_environment(os.environ),
    )


def _commit(path: Path) -> str | None:
    if not (path / ".git").exists():
        return None
    done = git(path, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    return done.stdout.strip() or None if done.ok else None


def _changes(path: Path, cmsis_nn: str) -> tuple[str, ...]:
    """Changed files, ``XY name`` as git prints them, in the repositories that have a history."""
    found: list[str] = []
    for module, parts in (
        ("", (*SOURCES, *SUBMODULES)),
        *SUBMODULES.items(),
        (cmsis_nn, _CMSIS_NN_PARTS),
    ):
        folder = path / module
        if not (folder / ".git").exists():
            continue
        done = git(folder, "status", "--porcelain", "--ignore-submodules=dirty", "-z", "--", *parts)
        if not done.ok:
            raise ToolError(
                f"git cannot tell what has changed in {str(folder)!r}",
                remedy="run 'git status' there and repair what it says",
                evidence=done.tail(),
            )
        prefix = f"{module}/" if module else ""
        # A rename's old name follows as an entry of its own, without the two letters.
        found += [
            f"{entry[:3]}{prefix}{entry[3:]}"
            for entry in done.stdout.split("\0")
            if re.match(r"[ MADRCUT?!]{2} ", entry)
        ]
    return tuple(found)
