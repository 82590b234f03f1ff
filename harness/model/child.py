"""Run the export worker as a child, and turn whatever becomes of it into files or one error."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.errors import BenchError, CapabilityMissing, HilError, ToolError, UsageError

START_S = 300.0
"""Allowed for starting Python and importing torch: 5 s on an idle machine."""

EACH_S = 180.0
"""Allowed for each model: 2 to 8 s on an idle machine."""

PROGRESS = b"@export "
DISK_FULL = 74
"""Both as in the worker, which is not imported here: it is another process's main module."""

_WORKER = ("-m", "harness.model.worker")


@dataclass(frozen=True)
class Job:
    """One export: the model, the core it is lowered for (None: portable), and an empty folder."""

    model: str
    cpu: str | None
    folder: Path


def run_exports(
    jobs: Sequence[Job],
    *,
    checkout: Path | None,
    progress: Callable[[str], None],
    worker: Sequence[str] = (),
    timeout_s: float | None = None,
) -> dict[Path, HilError | None]:
    """Run ``jobs`` in one child; by folder, None where it now holds an export, or what went wrong.

    Jobs before the one that killed the child keep their result.  Raises :class:`ToolError` when
    the child hangs for longer than ``timeout_s`` (by default 300 s and 180 s a job), with nothing
    left running.  ``worker``: another command line to start, for tests.
    """
    request = {
        "checkout": None if checkout is None else str(checkout.resolve()),
        "exports": [
            {"model": each.model, "cpu": each.cpu, "folder": str(each.folder)} for each in jobs
        ],
    }
    done = process.run(
        worker or (sys.executable, *_WORKER),
        timeout_s=timeout_s or START_S + EACH_S * len(jobs),
        env=environment(),
        stdin=json.dumps(request).encode(),
        on_output=_Lines(progress).feed,
    )
    return {each.folder: _outcome(each, done) for each in jobs}


def _outcome(job: Job, done: process.Completed) -> HilError | None:
    if (job.folder / "artifact.json").is_file():
        return None
    told = job.folder / "error.json"
    if told.is_file():
        return _told(job, told)
    what = f"exporting model {job.model!r} failed: the export worker"
    if done.returncode == -signal.SIGKILL:
        return ToolError(
            f"{what} was killed, as the system does when memory runs out",
            remedy="free memory (an export takes about 1 GB) and run again",
            evidence=done.tail(),
        )
    if done.returncode < 0:
        return ToolError(
            f"{what} died of {_signal_name(-done.returncode)}",
            remedy="run again; if it repeats, try the pinned torch and executorch",
            evidence=done.tail(),
        )
    if done.returncode == DISK_FULL:
        return BenchError(
            f"the disk that holds {str(job.folder.parent)!r} is full, so model {job.model!r} was"
            " not exported",
            remedy="free some room, or set HIL_CACHE to a folder on another disk",
            evidence=done.tail(),
        )
    return ToolError(
        f"{what} ended with exit code {done.returncode} and left no result",
        remedy="look at its last lines; 'hil doctor' checks the installation",
        evidence=done.tail(),
    )


def _told(job: Job, path: Path) -> HilError:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        kind, message, remedy = str(raw["kind"]), str(raw["message"]), str(raw["remedy"])
        evidence = tuple(str(line) for line in raw["evidence"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return ToolError(
            f"exporting model {job.model!r} failed and the worker's account of it is unreadable:"
            f" {error}",
            remedy="run again",
        )
    if kind == "usage":
        return UsageError(message, remedy=remedy, evidence=evidence)
    if kind == "capability":
        return CapabilityMissing(message, remedy=remedy, evidence=evidence)
    target = "portable" if job.cpu is None else f"cortex-{job.cpu}"
    return ToolError(
        f"exporting model {job.model!r} for {target} failed: {message}",
        remedy=remedy,
        evidence=evidence,
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def environment() -> dict[str, str]:
    """The caller's environment, with what makes exports repeat and the bench importable."""
    package_root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([package_root, inherited] if inherited else [package_root]),
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # Exports are float32 on the processor; a graphics driver only slows the import.
        "CUDA_VISIBLE_DEVICES": "",
    }


class _Lines:
    """Picks the worker's progress lines out of whatever else libraries print."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest[-4096:]
        for line in lines:
            if line.startswith(PROGRESS):
                self._progress(line.removeprefix(PROGRESS).decode("utf-8", "replace").strip())
