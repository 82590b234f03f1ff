"""One run as data: cases with verdicts, measurements, versions, and a manifest written last.

``run.json`` is the last file written into a run's folder: a folder without it is of a run that was
cut off.  Its ``files`` lists every other file with size and SHA-256.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.clock import wall_iso
from harness.errors import BenchError
from harness.report.verdict import Kind, Verdict, worst
from harness.storage.cache import write_atomically
from harness.storage.digest import file_digest

FORMAT = 1


@dataclass(frozen=True)
class Case:
    """One test's verdict; ``subject`` is the model or sketch it is about."""

    nodeid: str
    subject: str | None
    verdict: Verdict
    duration_s: float


@dataclass
class Measurement:
    """What was measured of one model or sketch; None where this lane or case did not measure it.

    ``instructions`` counts executed instructions of one inference on an emulated core; it says
    nothing about time on silicon.
    """

    subject: str
    output: str | None = None
    flash_bytes: int | None = None
    ram_bytes: int | None = None
    arena_bytes: int | None = None
    instructions: int | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class RunRecord:
    """Everything that a run's report is made from."""

    board: str
    lane: str
    core_version: str
    command: tuple[str, ...]
    folder: Path
    started: str = field(default_factory=wall_iso)
    cases: list[Case] = field(default_factory=list)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    provenance: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    interrupted: bool = False

    def measure(self, subject: str) -> Measurement:
        """The measurement of ``subject``, to be filled in."""
        return self.measurements.setdefault(subject, Measurement(subject))

    def add(self, case: Case) -> None:
        """Add a case; a later phase of the same test replaces a better verdict only."""
        for at, known in enumerate(self.cases):
            if known.nodeid == case.nodeid:
                if worst((known.verdict.kind, case.verdict.kind)) is not known.verdict.kind:
                    self.cases[at] = case
                return
        self.cases.append(case)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Every case's verdict."""
        return tuple(case.verdict.kind for case in self.cases)

    def verdict(self, subject: str) -> Kind | None:
        """The verdict that stands for all cases of ``subject``."""
        return worst(case.verdict.kind for case in self.cases if case.subject == subject)

    def write(self) -> Path:
        """Write ``run.json``; raises :class:`BenchError` when the folder cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            files = {
                str(path.relative_to(self.folder)): {
                    "bytes": path.stat().st_size,
                    "sha256": file_digest(path),
                }
                for path in sorted(self.folder.rglob("*"))
                if path.is_file() and path.name != "run.json"
            }
            target = self.folder / "run.json"
            write_atomically(target, (json.dumps(self._json(files), indent=1) + "\n").encode())
        except OSError as error:
            raise BenchError(
                f"the run's record cannot be written to {str(self.folder)!r}:"
                f" {error.strerror or error}",
                remedy="free space or choose another folder with --out; the verdicts are on screen",
            ) from error
        return target

    def _json(self, files: Mapping[str, object]) -> dict[str, object]:
        whole = worst(self.kinds)
        return {
            "format": FORMAT,
            "started": self.started,
            "ended": wall_iso(),
            "interrupted": self.interrupted,
            "board": self.board,
            "lane": self.lane,
            "core_version": self.core_version,
            "command": list(self.command),
            "machine": {"system": platform.platform(), "python": platform.python_version()},
            "provenance": self.provenance,
            "warnings": self.warnings,
            "verdict": None if whole is None else whole.value,
            "cases": [
                {
                    "nodeid": case.nodeid,
                    "subject": case.subject,
                    "verdict": case.verdict.kind.value,
                    "duration_s": round(case.duration_s, 3),
                    "diagnosis": None
                    if case.verdict.diagnosis is None
                    else case.verdict.diagnosis.as_json(),
                }
                for case in self.cases
            ],
            "measurements": [
                {
                    **asdict(each),
                    "verdict": None if (kind := self.verdict(name)) is None else kind.value,
                }
                for name, each in sorted(self.measurements.items())
            ],
            "files": files,
        }
