"""Where a library came from, and which exporter stands beside it.

The exporter is read from the interpreter's installed metadata and from text files; nothing of
torch or executorch is imported, which would take seconds.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from harness.errors import CapabilityMissing

Origin = Literal["checkout", "folder", "zip", "wheel"]
SchemaSource = Literal["checkout", "wheel flatc", "library"]

_ABBREVIATED = 10


@dataclass(frozen=True)
class Exporter:
    """The executorch wheel and torch of the bench's interpreter; ``unknown`` where not said."""

    wheel_version: str
    git_revision: str
    torch_version: str

    def __str__(self) -> str:
        return f"executorch {self.wheel_version} ({self.git_revision[:_ABBREVIATED]})"


@dataclass(frozen=True)
class LibraryProvenance:
    """What is known of a library tree.

    ``dirty`` and ``changes``: files that differ from the commit, in the folders the library is
    made of.  ``op_set`` is the operator selection as the library's own record tells it.
    ``kernels`` are counted in its generated registration.  ``schema_source`` says whose schema
    headers it holds; ``flatbuffers_version`` is that of the vendored headers they are compiled
    with.  ``digest`` is of the whole tree, see :mod:`harness.storage.digest`.
    """

    origin: Origin
    commit: str | None
    dirty: bool
    op_set: str
    kernels: int
    max_kernels: int | None
    exporter: Exporter
    flatc_version: str | None
    flatbuffers_version: str | None
    schema_source: SchemaSource
    version: str
    pin: str | None
    provenance_text: str | None
    digest: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LibraryRecord:
    """What a built library says of itself in its extras, pin and generated files."""

    commit: str | None
    dirty: bool
    op_set: str
    kernels: int
    max_kernels: int | None
    flatbuffers_version: str | None
    version: str
    pin: str | None
    provenance_text: str | None


def wheel_folder() -> Path:
    """The installed ``executorch`` package; raises :class:`CapabilityMissing` without one.

    A checkout's parent on the import path also looks like the package, so the folder is told by
    the file that only an installation has.
    """
    spec = importlib.util.find_spec("executorch")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    for place in places:
        if (Path(place) / "version.py").is_file() and (Path(place) / "include").is_dir():
            return Path(place)
    raise CapabilityMissing(
        "the executorch wheel is not installed in this interpreter",
        remedy="run 'make test' to set up, or 'pip install executorch'",
    )


def read_exporter() -> Exporter:
    """The exporter of this interpreter; raises :class:`CapabilityMissing` without one."""
    return Exporter(
        wheel_version=_version("executorch"),
        git_revision=_git_revision(wheel_folder() / "version.py"),
        torch_version=_version("torch"),
    )


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _git_revision(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    found = re.search(r"^git_version\b[^=\n]*=\s*['\"]([0-9a-f]{7,64})['\"]", text, re.MULTILINE)
    return found[1] if found else "unknown"


def read_record(root: Path) -> LibraryRecord:
    """What the library at ``root`` says of itself; whatever is absent or odd is left unknown."""
    text = _text(root / "extras/PROVENANCE.txt")
    told = _commit_line(text or "")
    pin = _revision(_text(root / "executorch_pin.txt") or "")
    source = root / "src/executorch"
    number = _first(
        r"#define\s+EXECUTORCH_SELECTED_MAX_KERNEL_NUM\s+(\d{1,9})\b",
        _text(source / "runtime/kernel/selected_max_kernel_num.h"),
    )
    return LibraryRecord(
        commit=_revision(told) or pin,
        dirty="uncommitted" in told,
        op_set=_first(r"^op set:[ \t]*(\S.*)$", text) or "unknown",
        kernels=len(registered_operators(root)),
        max_kernels=int(number) if number else None,
        flatbuffers_version=flatbuffers_version(root / "src/flatbuffers"),
        version=read_properties(root).get("version", "unknown"),
        pin=pin,
        provenance_text=text,
    )


def registered_operators(root: Path) -> tuple[str, ...]:
    """Operator of every kernel that the library's generated registration lists, in its order."""
    folder = root / "src/executorch/codegen"
    names: list[str] = []
    for path in sorted(folder.glob("RegisterCodegenUnboxedKernels*.cpp")):
        names += re.findall(r'\bKernel\(\s*"([\w:.]+)"', _text(path) or "")
    return tuple(names)


def read_properties(root: Path) -> Mapping[str, str]:
    """``library.properties`` of the library at ``root``, empty where there is none."""
    pairs: dict[str, str] = {}
    for line in (_text(root / "library.properties") or "").splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith("#"):
            pairs[key.strip()] = value.strip()
    return pairs


def flatbuffers_version(headers: Path) -> str | None:
    """Version in ``base.h`` of a folder of flatbuffers headers, as ``24.3.25``."""
    text = _text(headers / "base.h")
    parts = [
        _first(rf"#define\s+FLATBUFFERS_VERSION_{part}\s+(\d+)", text)
        for part in ("MAJOR", "MINOR", "REVISION")
    ]
    return ".".join(part for part in parts if part) if all(parts) else None


def exporter_mismatch(provenance: LibraryProvenance, exporter: Exporter) -> str | None:
    """One sentence with both revisions where models and library are of different ones."""
    if provenance.origin == "wheel":
        return None
    commit = provenance.commit
    if commit is None:
        return (
            f"the library does not say which ExecuTorch commit it is from, so whether models from"
            f" {exporter} match it is unknown"
        )
    revision = exporter.git_revision
    shorter = min(len(commit), len(revision))
    if commit[:shorter] == revision[:shorter]:
        return None
    return (
        f"models are exported with {exporter} but the library is from commit"
        f" {commit[:_ABBREVIATED]}: operator schemas may differ, and a model that does not match"
        " fails only when it executes"
    )


def schema_mismatch(provenance: LibraryProvenance) -> str | None:
    """One sentence with both versions where flatc and the flatbuffers headers differ."""
    flatc, headers = provenance.flatc_version, provenance.flatbuffers_version
    if flatc is None or headers is None or flatc == headers:
        return None
    return (
        f"the schema headers are from flatc {flatc} but the library's flatbuffers headers are"
        f" {headers}: it will not compile"
    )


def to_json(provenance: LibraryProvenance) -> dict[str, object]:
    """Plain values that :func:`from_json` reads back."""
    plain = dict(vars(provenance))
    plain["exporter"] = dict(vars(provenance.exporter))
    plain["changes"] = list(provenance.changes)
    return plain


def from_json(plain: Mapping[str, object]) -> LibraryProvenance:
    """The provenance written by :func:`to_json`; raises :class:`ValueError` on anything else."""
    values = dict(plain)
    exporter, changes = values.pop("exporter", None), values.pop("changes", None)
    if not isinstance(exporter, dict) or not isinstance(changes, list):
        raise ValueError("not a provenance record")
    if values.get("origin") not in get_args(Origin):
        raise ValueError(f"unknown origin {values.get('origin')!r}")
    try:
        return LibraryProvenance(
            **values,  # type: ignore[arg-type]  # our own file; wrong keys raise TypeError
            exporter=Exporter(**exporter),
            changes=tuple(str(each) for each in changes),
        )
    except TypeError as error:
        raise ValueError(f"not a provenance record: {error}") from error


def _commit_line(text: str) -> str:
    return _first(r"^commit:[ \t]*(\S.*)$", text) or ""


def _revision(text: str) -> str | None:
    return _first(r"\A\s*([0-9a-f]{7,64})\b", text)


def _first(pattern: str, text: str | None) -> str | None:
    found = re.search(pattern, text or "", re.MULTILINE)
    return found[1].strip() if found else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
