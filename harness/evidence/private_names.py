"""Which names of a run are private: what the run itself noted, and what this machine is called."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from pathlib import Path

from harness.evidence.plain import Damaged, Plain
from harness.evidence.redaction import Secrets
from harness.evidence.run_folder import RunFolder
from harness.report.run_record import private_names

_OPTIONS = frozenset({"--hil-serial", "--serial-number"})
_TOOL_OPTIONS = _OPTIONS | {"-s"}
"""adb and remoteocd take it so; for OpenOCD it is a folder, and for pytest something else."""

_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{3,63}")
_SERIAL_PROPERTY = "serialNumber="


def secrets_of(run: RunFolder, *, keep_serials: bool) -> Secrets:
    """What is looked for in every file of ``run``."""
    noted = run.begun.part("private")
    here = private_names()
    known = {
        key: {name for name in (noted.text_or_none(key), here[key]) if name}
        for key in ("user", "home", "host")
    }
    # A host's name without its domain is its name as well.
    hosts = {part for name in known["host"] for part in (name, name.partition(".")[0])}
    homes = known["home"]
    users = known["user"] | {Path(home).name for home in homes}
    serials = frozenset() if keep_serials else frozenset(_serials(run))
    return Secrets(frozenset(homes), frozenset(users), frozenset(hosts), serials)


def _serials(run: RunFolder) -> Iterable[str]:
    for case in run.cases:
        if case.serial_number:
            yield case.serial_number
    yield from _in_command(run.begun.texts("command"), _OPTIONS)
    for entry in run.recording.entries:
        if entry.way == "mark" and entry.facts is not None:
            yield from _in_mark(entry.facts)


def _in_mark(facts: Plain) -> Iterable[str]:
    # A mark is what some later version of the bench noted: what is not text is not a command line.
    try:
        yield from _in_command(facts.texts("argv"), _TOOL_OPTIONS)
        serial = facts.text_or_none("serial_number")
    except Damaged:
        return
    if serial:
        yield serial


def _in_command(argv: Iterable[str], options: Container[str]) -> Iterable[str]:
    before = ""
    for word in argv:
        option, _, value = word.partition("=")
        candidates = [value] if option in options else []
        candidates += [word] if before in options else []
        if _SERIAL_PROPERTY in word:
            candidates.append(word.rpartition(_SERIAL_PROPERTY)[2])
        yield from (each for each in candidates if _SERIAL.fullmatch(each))
        before = word
