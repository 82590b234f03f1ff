"""What the pipeline gave one test, in order: enough to judge it again without the pipeline.

Written as ``cases/<its id>/case.json`` when the test begins and again when it ends, so that a run
that was killed says what it was doing.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.arduino.build import Firmware
from harness.clock import wall_iso
from harness.model.artifact import ModelArtifact
from harness.report.verdict import Verdict
from harness.storage.atomic_file import write_atomically
from harness.storage.digest import file_digest

FORMAT = 1

MODELS = "models"
"""Folder of a run that holds each model it used: program, golden inputs and outputs."""


@dataclass
class CaseLog:
    """One test as it goes on; ``from_entry`` and ``to_entry`` bound it in the transcript's index.

    ``running`` is the key of the firmware that was on the board when it began.
    """

    nodeid: str
    subject: str | None
    from_entry: int = 0
    to_entry: int | None = None
    running: str | None = None
    serial_number: str | None = None
    started: str = field(default_factory=wall_iso)
    ended: str | None = None
    made: list[dict[str, object]] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    """What had to be done again because of a fault."""

    remarks: list[str] = field(default_factory=list)
    """What was odd with the board and did no harm."""

    @property
    def firmware(self) -> list[dict[str, object]]:
        """The firmware that it built or took from the cache, in order."""
        return [each for each in self.made if each["kind"] == "firmware"]

    def as_json(self, verdict: Verdict | None) -> dict[str, object]:
        """The content of ``case.json``; ``verdict`` is None while it runs."""
        diagnosis = verdict.diagnosis if verdict is not None else None
        return {
            "format": FORMAT,
            "nodeid": self.nodeid,
            "subject": self.subject,
            "started": self.started,
            "ended": self.ended,
            "transcript": {"from": self.from_entry, "to": self.to_entry},
            "running": self.running,
            "serial_number": self.serial_number,
            "made": self.made,
            "retries": self.retries,
            "remarks": self.remarks,
            "verdict": None if verdict is None else verdict.kind.value,
            "diagnosis": None if diagnosis is None else diagnosis.as_json(),
        }

    def write(self, folder: Path, verdict: Verdict | None) -> None:
        """Write ``case.json`` into ``folder``; raises :class:`OSError`."""
        text = json.dumps(self.as_json(verdict), indent=1) + "\n"
        write_atomically(folder / "case.json", text.encode("utf-8"))


def firmware_record(firmware: Firmware) -> dict[str, object]:
    """A firmware as data: what it is, what made it, against which library, and its sizes."""
    return {
        "kind": "firmware",
        "sketch": firmware.sketch,
        "key": firmware.key,
        "nonce": firmware.nonce,
        "core_version": firmware.core_version,
        "footprint": asdict(firmware.footprint),
        "command": list(firmware.command),
        "library": firmware.library,
        "cached": firmware.cached,
    }


def model_record(artifact: ModelArtifact) -> dict[str, object]:
    """A model as data, with the folder of the run that holds it."""
    return {
        "kind": "model",
        "name": artifact.name,
        "digest": artifact.digest,
        "folder": model_folder(artifact),
    }


def example_record(name: str, artifact: ModelArtifact | None) -> dict[str, object]:
    """An example of the library; ``artifact`` replaced the model that it ships."""
    model = None if artifact is None else model_folder(artifact)
    return {"kind": "example", "name": name, "model": model}


def model_folder(artifact: ModelArtifact) -> str:
    """Where in the run's folder a model is kept, relative to it."""
    return f"{MODELS}/{artifact.name}-{artifact.target.label}"


def keep_model(run_folder: Path, artifact: ModelArtifact) -> None:
    """Copy a model with its golden cases into the run's folder, unless it is there already.

    Its generated header is left out: it is the program again, and the largest file of all.  Raises
    :class:`OSError`, and what :func:`file_digest` does.
    """
    target = run_folder / model_folder(artifact)
    program = target / artifact.pte.name
    if program.is_file() and file_digest(program) == artifact.digest:
        return
    (target / "cases").mkdir(parents=True, exist_ok=True)
    for case in artifact.cases:
        for path in (case.input_path, case.output_path):
            shutil.copyfile(path, target / "cases" / path.name)
    shutil.copyfile(artifact.pte.parent / "artifact.json", target / "artifact.json")
    shutil.copyfile(artifact.pte, program)
