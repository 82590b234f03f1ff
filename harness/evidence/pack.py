"""A run as one zip to send: private names taken out, digests made anew, the original untouched.

The same run gives the same bytes: entries are sorted, and times and modes are fixed.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import BenchError, UsageError
from harness.evidence.frames import mend_frames
from harness.evidence.plain import damaged, read_plain
from harness.evidence.private_names import secrets_of
from harness.evidence.redaction import Redactor
from harness.evidence.run_folder import RUN, open_run, regular_files
from harness.report.case_log import MODELS
from harness.report.run_record import BEGUN, RESERVE

REDACTED = "REDACTED.json"
MAX_TOTAL_BYTES = 2 * 1024 * 1024 * 1024
_TIME = (1980, 1, 1, 0, 0, 0)
_PIECE_BYTES = 1 << 20


@dataclass
class Packed:
    """What a packing did."""

    target: Path
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    left: dict[str, Counter[str]] = field(default_factory=dict)
    """Private names in files that are evidence byte for byte, and so were not touched."""

    links: list[str] = field(default_factory=list)
    kept: tuple[str, ...] = ()
    distinct: Mapping[str, int] = field(default_factory=dict)
    mended: int = 0
    nbytes: int = 0

    def as_json(self) -> dict[str, object]:
        """The content of ``REDACTED.json``: numbers and files, never what was replaced."""
        total: Counter[str] = sum(self.counts.values(), Counter())
        return {
            "format": 1,
            "kinds": {
                kind: {"names": self.distinct.get(kind, 0), "places": total[kind]}
                for kind in ("home", "user", "host", "serial")
            },
            "files": {name: dict(sorted(found.items())) for name, found in self.counts.items()},
            "left_as_they_are": {
                name: dict(sorted(found.items())) for name, found in self.left.items()
            },
            "records_with_new_checksum": self.mended,
            "not_packed": self.links,
        }

    def lines(self) -> list[str]:
        """For a terminal."""
        shown = [f"packed: {self.target} ({self.nbytes} B)"]
        total: Counter[str] = sum(self.counts.values(), Counter())
        for kind in ("home", "user", "host", "serial"):
            names = self.distinct.get(kind, 0)
            shown.append(f"  {kind}: {names} name(s) replaced in {total[kind]} place(s)")
        for name, found in sorted(self.counts.items()):
            places = ", ".join(f"{kind} {number}" for kind, number in sorted(found.items()))
            shown.append(f"  {name}: {places}")
        for name, found in sorted(self.left.items()):
            shown.append(
                f"warning: {name} holds {sum(found.values())} private name(s) and was left as it"
                " is, since its digest is part of the evidence"
            )
        shown += [f"not looked for: {each}" for each in self.kept]
        shown += [f"not packed: {each}" for each in self.links]
        return shown


def pack(folder: Path, target: Path, *, keep_serials: bool = False) -> Packed:
    """Write ``folder`` as a zip to ``target``.

    Raises :class:`UsageError` when the folder is no run or the target cannot be, :class:`Damaged`
    when the run is not as it was written, since new digests would hide that, and
    :class:`BenchError` when the disk gives out.
    """
    run = open_run(folder)
    _require_target(folder, target)
    redactor = Redactor(secrets_of(run, keep_serials=keep_serials))
    packed = Packed(target, kept=tuple(redactor.kept))
    try:
        # Beside the target: there is room for the zip, so there is a folder that can be written.
        with TemporaryDirectory(prefix=".hil-pack", dir=target.absolute().parent) as scratch:
            copy = Path(scratch) / "run"
            _copy(folder, copy, redactor, packed)
            packed.distinct = redactor.distinct
            text = json.dumps(packed.as_json(), indent=1, sort_keys=True) + "\n"
            (copy / REDACTED).write_text(text, encoding="utf-8")
            _renew(copy)
            half = Path(scratch) / "half.zip"
            _zip(copy, half)
            packed.nbytes = half.stat().st_size
            half.replace(target)
    except OSError as error:
        raise BenchError(
            f"the run cannot be packed into {str(target)!r}: {error.strerror or error}",
            remedy="free space on that disk, or name another place with --out",
        ) from error
    return packed


def _require_target(folder: Path, target: Path) -> None:
    inside = folder.resolve() in target.absolute().parent.resolve().parents
    if inside or folder.resolve() == target.absolute().parent.resolve():
        raise UsageError(
            f"{str(target)!r} lies in the folder that is packed",
            remedy="name a place outside of it with --out",
        )
    if target.exists():
        raise UsageError(
            f"{str(target)!r} is there already", remedy="remove it, or name another with --out"
        )
    if not target.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {str(target.absolute().parent)!r} to write the zip into",
            remedy="make it, or name another place with --out",
        )


def _copy(folder: Path, copy: Path, redactor: Redactor, packed: Packed) -> None:
    total = 0
    copy.mkdir()
    for name, path, kind in regular_files(folder):
        if name == RESERVE:
            continue
        if name == REDACTED:
            raise UsageError(
                f"the run in {str(folder)!r} was packed before: it holds {REDACTED}",
                remedy="send the zip that it came from",
            )
        if kind != "file":
            packed.links.append(f"{redactor.redact(name)!r}: a {kind}, which is not followed")
            continue
        total += path.stat().st_size
        if total > MAX_TOTAL_BYTES:
            raise UsageError(
                f"the run in {str(folder)!r} is larger than {MAX_TOTAL_BYTES} B",
                remedy="send its serial/ folder apart",
            )
        place = copy / redactor.redact(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(path, place, follow_symlinks=False)
        except OSError as error:
            raise damaged(repr(name), f"cannot be read: {error.strerror or error}") from error
        _redact_file(place, redactor.redact(name), redactor, packed)


def _redact_file(path: Path, name: str, redactor: Redactor, packed: Packed) -> None:
    """Patch a copy in place: placeholders have the length of what they replace."""
    if path.stat().st_size == 0:
        return
    exact = name.startswith(f"{MODELS}/") and not name.endswith(".json")
    counted: Counter[str] = Counter()
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as data:
        # Found first, patched after: a pattern must not see half of a placeholder.
        places = []
        for hit in redactor.hits(data):  # type: ignore[arg-type]  # a buffer like any other
            counted[hit.kind] += 1
            if not exact:
                places.append(hit)
        if not exact:
            frames = mend_frames(data, [(hit.start, hit.end) for hit in places])
            for hit in places:
                data[hit.start : hit.end] = hit.placeholder
            packed.mended += frames.write(data)
    if counted:
        (packed.left if exact else packed.counts)[name] = counted


def _renew(copy: Path) -> None:
    """Take out the list of what was private, and make the manifest anew."""
    for name in (BEGUN, RUN):
        path = copy / name
        if not path.is_file():
            continue
        record = {**read_plain(path, f"'{name}'").content, "private": {}}
        if name == RUN:
            record["files"] = {
                each: {"bytes": place.stat().st_size, "sha256": _digest(place)}
                for each, place, _ in regular_files(copy)
                if each != RUN
            }
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _zip(folder: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, path, _ in regular_files(folder):
            entry = zipfile.ZipInfo(name, date_time=_TIME)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, archive.open(entry, "w") as stored:
                shutil.copyfileobj(source, stored, _PIECE_BYTES)
