"""One run as data: cases with verdicts, measurements, versions, and a manifest written last.

``begun.json`` is the first file written into a folder, ``run.json`` the last: a folder without it
is of a run that was cut off.  ``files`` lists every other file with size and SHA-256.
"""

from __future__ import annotations

import getpass
import json
import platform
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.arduino.build import Firmware
from harness.clock import wall_iso
from harness.errors import BenchError, HilError, UsageError
from harness.model.artifact import ModelArtifact
from harness.report.case_log import (
    MODELS,
    CaseLog,
    example_record,
    firmware_record,
    keep_model,
    model_record,
)
from harness.report.tool_versions import tool_versions
from harness.report.verdict import Kind, Verdict, worst
from harness.storage.cache import write_atomically
from harness.storage.digest import file_digest

FORMAT = 1

RESERVE = ".reserved"
RESERVED_BYTES = 1024 * 1024
"""Room that a run keeps from its start, so that its reports can be written on a disk that filled
up in the middle of it."""

BEGUN = "begun.json"

KEPT_BY_A_RUN = (
    "run.json",
    BEGUN,
    "serial/serial.rx.bin",
    "serial/serial.tx.bin",
    "serial/serial.jsonl",
)
"""What an earlier run left in the folder and another one must not be mixed up with."""


def default_folder(what: str) -> Path:
    """Where the evidence of a run of ``what`` goes unless the caller names a folder."""
    stamp = wall_iso().replace(":", "").replace("-", "")[:15]
    return Path("hil-out") / f"{stamp}-{what}"


def claim(folder: Path) -> None:
    """Make the run's folder and see that it can be written, before anything is done for it.

    What an earlier run left there under the names of ours is removed.  Raises
    :class:`UsageError` when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESERVE).write_bytes(bytes(RESERVED_BYTES))
        for name in KEPT_BY_A_RUN:
            (folder / name).unlink(missing_ok=True)
        for name in ("serial.log", "diagnosis.json", "case.json"):
            for left in (folder / "cases").glob(f"*/{name}"):
                left.unlink()
        for left in (folder / MODELS).glob("*/artifact.json"):
            shutil.rmtree(left.parent)
    except OSError as error:
        raise UsageError(
            f"the run's evidence cannot be written to {str(folder)!r}: {error.strerror or error}",
            remedy="name a folder that can be written with --hil-out (hil test: --out)",
        ) from error


def release(folder: Path) -> None:
    """Give up the room that :func:`claim` reserved: what is written now are the reports."""
    with suppress(OSError):
        (folder / RESERVE).unlink(missing_ok=True)


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
    interrupted_in: str | None = None
    """The test that ran when the run was interrupted; it has no verdict."""

    stand_in: str | None = None
    """What a run on a stand-in cannot show; None where the board itself ran."""

    current: CaseLog | None = None
    """The test that runs now."""

    logs: dict[str, CaseLog] = field(default_factory=dict)

    def made(self, kind: str, value: object) -> None:
        """Keep what a stage gave the test that runs now, for :mod:`harness.evidence` to replay.

        ``kind``: ``firmware`` with a Firmware, ``model`` with a ModelArtifact, ``example`` with a
        pair of name and the ModelArtifact that replaced its own, or None.
        """
        entry: dict[str, object]
        artifact: ModelArtifact | None = None
        match kind, value:
            case "firmware", Firmware():
                entry = firmware_record(value)
                for alert in value.alerts:
                    self.warn(alert)
            case "model", ModelArtifact():
                artifact, entry = value, model_record(value)
            case "example", (str(name), ModelArtifact() | None as artifact):
                entry = example_record(name, artifact)
            case _:
                raise UsageError(
                    f"a run keeps no {kind!r} of type {type(value).__name__!r}",
                    remedy="teach harness/report/case_log.py how to record it",
                )
        if artifact is not None:
            try:
                keep_model(self.folder, artifact)
            except (OSError, HilError) as error:
                self.warn(f"model {artifact.name!r} could not be kept for a replay: {error}")
        if self.current is not None:
            self.current.made.append(entry)

    def warn(self, line: str) -> None:
        """Add a warning, once."""
        if line not in self.warnings:
            self.warnings.append(line)

    def odd(self, nodeid: str, retries: Sequence[str], remarks: Sequence[str]) -> None:
        """Keep what was done again because of a fault while a test ran, and what was odd.

        Both are warnings of the run, too: a test that needed a retry is not silently green.
        """
        for each in retries:
            self.warn(f"{nodeid} needed a retry: {each}")
        for each in remarks:
            self.warn(each)
        if (log := self.logs.get(nodeid)) is not None:
            log.retries += retries
            log.remarks += remarks

    def begin(self) -> None:
        """Write ``begun.json``: what a run that is cut off cannot say any more.

        Raises :class:`OSError`.
        """
        write_atomically(self.folder / BEGUN, (json.dumps(self._begun(), indent=1) + "\n").encode())

    def _begun(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "started": self.started,
            "board": self.board,
            "lane": self.lane,
            "core_version": self.core_version,
            "stand_in": self.stand_in,
            "command": list(self.command),
            "machine": {"system": platform.platform(), "python": platform.python_version()},
            "private": private_names(),
        }

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

    def verdict_of(self, nodeid: str) -> Verdict | None:
        """The verdict of one test so far, with its diagnosis."""
        return next((each.verdict for each in self.cases if each.nodeid == nodeid), None)

    def kind_of(self, nodeid: str) -> Kind | None:
        """The kind of the verdict of one test so far."""
        verdict = self.verdict_of(nodeid)
        return None if verdict is None else verdict.kind

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
            write_atomically(target, (json.dumps(self.as_json(files), indent=1) + "\n").encode())
        except OSError as error:
            raise BenchError(
                f"the run's record cannot be written to {str(self.folder)!r}:"
                f" {error.strerror or error}",
                remedy="free space or choose another folder with --out; the verdicts are on screen",
            ) from error
        return target

    def _of_log(self, nodeid: str) -> dict[str, object]:
        log = self.logs.get(nodeid)
        return {
            "firmware": log.firmware if log is not None else [],
            "retries": log.retries if log is not None else [],
            "remarks": log.remarks if log is not None else [],
        }

    def as_json(self, files: Mapping[str, object]) -> dict[str, object]:
        """The content of ``run.json``; ``files`` is the manifest."""
        whole = worst(self.kinds)
        return {
            **self._begun(),
            "ended": wall_iso(),
            "interrupted": self.interrupted,
            "interrupted_in": self.interrupted_in,
            "tools": tool_versions(self.lane) if files else {},
            "provenance": self.provenance,
            "warnings": self.warnings,
            "verdict": None if whole is None else whole.value,
            "cases": [
                {
                    "nodeid": case.nodeid,
                    "subject": case.subject,
                    "verdict": case.verdict.kind.value,
                    "duration_s": round(case.duration_s, 3),
                    **self._of_log(case.nodeid),
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


def private_names() -> dict[str, str]:
    """Who and where this run is, for :mod:`harness.evidence` to take out before it is sent."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    try:
        home = str(Path.home())
    except RuntimeError:
        home = ""
    return {"user": user, "home": home, "host": platform.node()}
