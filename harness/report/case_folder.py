"""One test's evidence in the run's folder, ``cases/<its id>/``.

``case.json`` has what the test was given and its verdict, ``serial.log`` what the board said, and
``diagnosis.json`` why a test did not pass.

The raw bytes of the whole run are in ``serial/``; these are the lines of one test, made safe to
show, so that a failure can be read without searching.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from harness.report.case_log import CaseLog
from harness.report.verdict import Verdict
from harness.storage.atomic_file import write_atomically
from harness.storage.digest import text_digest

LONGEST_NAME = 120


def safe_name(nodeid: str) -> str:
    """A folder's name for a test id: readable, of plain characters, and one for each id."""
    plain = re.sub(r"[^\w.=-]+", "_", nodeid, flags=re.ASCII).strip("_.")
    return f"{plain[-LONGEST_NAME:]}-{text_digest(nodeid)[:6]}"


def write_log(run_folder: Path, log: CaseLog, verdict: Verdict | None) -> None:
    """Write the test's ``case.json``; raises :class:`OSError`."""
    log.write(run_folder / "cases" / safe_name(log.nodeid), verdict)


def write_case(
    run_folder: Path, nodeid: str, *, said: Sequence[str], verdict: Verdict | None
) -> None:
    """Write what there is: nothing for a test that passed without a word from the board.

    Raises :class:`OSError` when the folder cannot be written.
    """
    folder = run_folder / "cases" / safe_name(nodeid)
    if said:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "serial.log", ("\n".join(said) + "\n").encode("utf-8"))
    if verdict is not None and verdict.diagnosis is not None:
        folder.mkdir(parents=True, exist_ok=True)
        record = {
            "nodeid": nodeid,
            "verdict": verdict.kind.value,
            "diagnosis": verdict.diagnosis.as_json(),
        }
        write_atomically(
            folder / "diagnosis.json", (json.dumps(record, indent=1) + "\n").encode("utf-8")
        )
