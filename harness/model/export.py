"""The model stage: a registry's model, exported for one target, with what it has to answer.

Exports are kept in the cache by the hash of all their inputs; one that is there is read without
torch in a few milliseconds.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.errors import BenchError, HilError
from harness.model.artifact import (
    PORTABLE,
    ExportTarget,
    GoldenCase,
    ModelArtifact,
    TensorSpec,
    read_artifact,
)
from harness.model.child import Job, run_exports
from harness.model.exporter_versions import exporter_versions
from harness.model.key import model_key
from harness.model.registry import MODELS, checkout_files, find_model
from harness.paths import cache_dir
from harness.storage.cache import entry
from harness.storage.lock import hold

__all__ = [
    "MODEL_NAMES",
    "PORTABLE",
    "ExportTarget",
    "GoldenCase",
    "ModelArtifact",
    "TensorSpec",
    "export_model",
    "export_models",
    "missing_models",
    "model_names",
    "read_artifact",
]

MODEL_NAMES = tuple(MODELS)
"""Every model there is, those that need a checkout included."""

_WAIT_S = 1800.0
_KIND = "model"
_STAGED = "export-"


def model_names(checkout: Path | None) -> tuple[str, ...]:
    """Names of the models that can be exported with this checkout, or without one."""
    return tuple(
        name for name, spec in MODELS.items() if checkout is not None or not spec.checkout_files
    )


def export_model(
    name: str,
    target: ExportTarget,
    *,
    checkout: Path | None,
    progress: Callable[[str], None],
) -> ModelArtifact:
    """One model for one target; see :func:`export_models`."""
    return export_models([(name, target)], checkout=checkout, progress=progress)[0]


def export_models(
    wanted: Sequence[tuple[str, ExportTarget]],
    *,
    checkout: Path | None,
    progress: Callable[[str], None],
) -> tuple[ModelArtifact, ...]:
    """Every wanted model, those not in the cache exported by one child.

    One child imports torch once, which takes longer than most exports: ask for all at once where
    all are needed.  Raises :class:`UsageError` for an unknown model or a missing checkout,
    :class:`CapabilityMissing` without an exporter, :class:`ToolError` when an export fails; the
    models exported before it stay in the cache.
    """
    found = [_Wanted.of(name, target, checkout) for name, target in wanted]
    missing = [each for each in dict.fromkeys(found) if not each.place.is_dir()]
    if not missing:
        return tuple(_cached(each, checkout, progress) for each in found)
    # One at a time on a machine: each child takes a core and a gigabyte, and the next caller
    # most often wants the same models.
    lock = cache_dir() / _KIND / ".export.lock"
    with hold(lock, purpose="exporting models", timeout_s=_WAIT_S, progress=progress):
        _export_missing(missing, checkout, progress)
        return tuple(_cached(each, checkout, progress) for each in found)


def missing_models(
    wanted: Sequence[tuple[str, ExportTarget]], *, checkout: Path | None
) -> tuple[tuple[str, ExportTarget], ...]:
    """Those that are not in the cache.  Raises :class:`UsageError` as :func:`export_models`."""
    return tuple(
        each for each in wanted if not _Wanted.of(each[0], each[1], checkout).place.is_dir()
    )


@dataclass(frozen=True)
class _Wanted:
    name: str
    target: ExportTarget
    key: str

    @classmethod
    def of(cls, name: str, target: ExportTarget, checkout: Path | None) -> _Wanted:
        spec = find_model(name)
        target = target if spec.quantized else PORTABLE
        checkout_files(spec, checkout)
        return cls(name, target, model_key(spec, target.label, checkout, exporter_versions()))

    @property
    def place(self) -> Path:
        return cache_dir() / _KIND / self.key


def _export_missing(
    wanted: Sequence[_Wanted], checkout: Path | None, progress: Callable[[str], None]
) -> None:
    missing = [each for each in wanted if not each.place.is_dir()]
    if not missing:
        return
    with _staging() as folder:
        jobs = {each: Job(each.name, each.target.cpu, folder / each.key) for each in missing}
        for job in jobs.values():
            job.folder.mkdir()
        outcomes = run_exports(tuple(jobs.values()), checkout=checkout, progress=progress)
        failures: list[HilError] = []
        for each, job in jobs.items():
            failure = outcomes[job.folder]
            if failure is None:
                entry(_KIND, each.key, partial(_move, job.folder))
            else:
                failures.append(failure)
    if failures:
        raise failures[0]


def _cached(
    wanted: _Wanted, checkout: Path | None, progress: Callable[[str], None]
) -> ModelArtifact:
    def build(place: Path) -> None:
        # Only for an entry that was there and turned out to be damaged.
        job = Job(wanted.name, wanted.target.cpu, place)
        failure = run_exports([job], checkout=checkout, progress=progress)[place]
        if failure is not None:
            raise failure

    return read_artifact(entry(_KIND, wanted.key, build, progress=progress))


@contextmanager
def _staging() -> Iterator[Path]:
    """A folder to export into; the caller holds the lock, so what others left is abandoned."""
    staging = cache_dir() / "staging"
    try:
        staging.mkdir(parents=True, exist_ok=True)
        for left in staging.glob(f"{_STAGED}*"):
            shutil.rmtree(left, ignore_errors=True)
        made = tempfile.TemporaryDirectory(dir=staging, prefix=_STAGED, ignore_cleanup_errors=True)
    except OSError as error:
        raise BenchError(
            f"cannot export into {str(staging)!r}: {error.strerror or error}",
            remedy="free some room there, or set HIL_CACHE to a folder that may be written",
        ) from error
    with made as folder:
        yield Path(folder)


def _move(source: Path, place: Path) -> None:
    for item in source.iterdir():
        shutil.move(item, place / item.name)
