"""A run's folder read back, with what is damaged in it named file by file."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.evidence.plain import Damaged, Plain, damaged, read_plain
from harness.evidence.recording import Recording, read_recording
from harness.report.run_record import BEGUN, RESERVE

RUN = "run.json"
MAX_FILES = 20_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RecordedCase:
    """One test as the run left it; ``verdict`` is None where it never got one.

    ``first`` and ``last`` bound it in the transcript's index; ``last`` is None when it never ended.
    """

    nodeid: str
    subject: str | None
    verdict: str | None
    stage: str
    symptom: str
    cause: str
    remedy: str
    first: int
    last: int | None
    running: str | None
    serial_number: str | None
    made: tuple[Plain, ...]


@dataclass(frozen=True)
class RunFolder:
    """A run; ``record`` is its ``run.json``, None when it was cut off before that was written."""

    path: Path
    begun: Plain
    record: Plain | None
    cases: tuple[RecordedCase, ...]
    recording: Recording
    without_log: tuple[tuple[str, str], ...]
    """Cases that ``run.json`` knows and that left no ``case.json``, with their verdicts."""

    remarks: tuple[str, ...] = ()


def open_run(folder: Path) -> RunFolder:
    """Read a run's folder and check it.

    Raises :class:`UsageError` when the folder is not a run's at all, and :class:`Damaged`, with a
    line for each file, when it is one and not as it was written.
    """
    if not folder.is_dir():
        raise UsageError(
            f"there is no run in {str(folder)!r}: it is no folder",
            remedy="give the folder that 'hil test --out' named, or a zip of it",
        )
    has_end = (folder / RUN).is_file()
    if not has_end and not (folder / BEGUN).is_file():
        raise UsageError(
            f"{str(folder)!r} is not the folder of a run: it has neither {RUN} nor {BEGUN}",
            remedy="give the folder that 'hil test --out' named, or a zip of it",
        )
    record = read_plain(folder / RUN, f"'{RUN}'") if has_end else None
    remarks: list[str] = []
    if record is not None:
        remarks += _require_manifest(folder, record)
    begun = read_plain(folder / BEGUN, f"'{BEGUN}'") if (folder / BEGUN).is_file() else record
    assert begun is not None
    cases = tuple(_cases(folder))
    recording = read_recording(folder / "serial", whole=record is not None)
    return RunFolder(
        path=folder,
        begun=begun,
        record=record,
        cases=cases,
        recording=recording,
        without_log=_agreed(record, cases),
        remarks=(*remarks, *recording.remarks),
    )


def regular_files(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Name, path and kind of every entry below ``folder``, sorted; links are not followed.

    The kind is ``file``, ``link`` or ``special``.  Raises :class:`Damaged` when a folder cannot be
    read or there are more than :data:`MAX_FILES`.
    """
    found: list[tuple[str, Path, str]] = []
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            listed = list(here.iterdir())
        except OSError as error:
            raise damaged(repr(str(here)), f"cannot be read: {error.strerror}") from error
        for path in listed:
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                waiting.append(path)
                continue
            kind = "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "special"
            found.append((path.relative_to(folder).as_posix(), path, kind))
            if len(found) > MAX_FILES:
                raise damaged(repr(str(folder)), f"holds more than {MAX_FILES} files")
    yield from sorted(found)


def _require_manifest(folder: Path, record: Plain) -> list[str]:
    listed = record.part("files").content
    present = {name: (path, kind) for name, path, kind in regular_files(folder)}
    wrong: list[str] = []
    for name in sorted(listed):
        entry = Plain(f"'{RUN}', files, {name[:80]!r}", listed[name])
        wanted_bytes, wanted = entry.count("bytes"), entry.text("sha256")
        if not _SHA256.fullmatch(wanted):
            raise damaged(entry.what, "has no SHA-256")
        path, kind = present.get(name, (folder, "missing"))
        if kind != "file":
            wrong.append(f"{name}: {'missing' if kind == 'missing' else f'is a {kind}'}")
            continue
        size = path.stat().st_size
        if size != wanted_bytes:
            wrong.append(f"{name}: {size} B, {wanted_bytes} B were written")
        elif _digest(path, name) != wanted:
            wrong.append(f"{name}: its content is not what was written")
    if wrong:
        names = ", ".join(each.partition(": ")[0] for each in wrong[:3])
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise Damaged(
            f"the run in {str(folder)!r} is damaged: {names}{more}",
            remedy="have the run's folder sent again, as it was written",
            evidence=tuple(wrong),
        )
    extra = sorted(set(present) - set(listed) - {RUN, RESERVE})
    return [f"{name!r} is not of the run: it was added later" for name in extra[:20]]


def _digest(path: Path, name: str) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise damaged(repr(name), f"cannot be read: {error.strerror}") from error


def _cases(folder: Path) -> list[RecordedCase]:
    found: list[tuple[str, RecordedCase]] = []
    for name, path, kind in regular_files(folder):
        parts = name.split("/")
        if len(parts) == 3 and parts[0] == "cases" and parts[2] == "case.json" and kind == "file":
            plain = read_plain(path, repr(name))
            found.append((plain.text("started"), _case(plain)))
    # Those that began at the same millisecond are told apart by their place in the transcript.
    found.sort(key=lambda each: (each[0], each[1].first))
    return [case for _, case in found]


def _case(plain: Plain) -> RecordedCase:
    place = plain.part("transcript")
    why = plain.part("diagnosis") if plain.content.get("diagnosis") is not None else None
    return RecordedCase(
        nodeid=plain.text("nodeid"),
        subject=plain.text_or_none("subject"),
        verdict=plain.text_or_none("verdict"),
        stage=why.text("stage") if why else "",
        symptom=why.text("symptom") if why else "",
        cause=why.text("cause") if why else "",
        remedy=why.text("remedy") if why else "",
        first=place.count("from"),
        last=place.count_or_none("to"),
        running=plain.text_or_none("running"),
        serial_number=plain.text_or_none("serial_number"),
        made=plain.parts("made"),
    )


def _agreed(record: Plain | None, cases: tuple[RecordedCase, ...]) -> tuple[tuple[str, str], ...]:
    """Cases without a log; raises where ``run.json`` and a ``case.json`` tell two stories."""
    known = {case.nodeid: case for case in cases}
    without = []
    for each in () if record is None else record.parts("cases"):
        nodeid, verdict = each.text("nodeid"), each.text("verdict")
        if nodeid not in known:
            without.append((nodeid, verdict))
        elif known[nodeid].verdict != verdict:
            raise damaged(
                f"'{RUN}'",
                f"says {verdict[:20]!r} of {nodeid[:120]!r}, and its case.json"
                f" {known[nodeid].verdict!r}",
            )
    return tuple(without)
