"""The canary: the example itself with a pool of one size, and an eye on the memory around it.

An example whose globals share memory with its core's stack or heap may run and print the right
answer.  ``sketches/canary/`` is compiled into it and looks; what it can and cannot find is in
``docs/arena.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.arduino.sketch import Sketch
from harness.arena.image import Image, Region, read_image
from harness.arena.pool import Pool, with_pool
from harness.errors import DutFailure, UsageError
from harness.paths import sketches_dir
from harness.pipeline import Bench
from harness.runner.protocol import MARKER, MalformedRecord, Record, decode_body, split_frame
from harness.serial.session_errors import BoardCrashed, BoardSilent

REPORT_TIMEOUT_S = 60.0
"""From the upload to the canary's second record: a real example waits 3 s and runs for one."""

ALIGNMENT = 16
SUFFIX = "Canary"

_SETUP = re.compile(r"\bvoid\s+setup\s*\(\s*(?:void)?\s*\)\s*\{")
_LOOP = re.compile(r"\bvoid\s+loop\s*\(\s*(?:void)?\s*\)\s*\{")
_FILES = {
    "canary": ("hil_canary.h", "hil_canary.cpp"),
    "runner": ("record.h", "record.cpp", "checksum.h", "checksum.cpp"),
}


@dataclass(frozen=True)
class Sighting:
    """What the canary in a sketch reported; addresses are the board's.

    ``tail_bytes`` of the pool the model never uses.  ``foreign_bytes`` of them were not zero when
    ``setup()`` began, the first at ``foreign_at``.  ``changed_bytes`` lost their paint during the
    run, all within ``changed``.  ``heap`` is where blocks of malloc lay, ``stack`` where the stack
    was.  Where the linker names them, ``stack_bytes`` and ``heap_bytes`` of the reservation were
    painted, and nobody wrote into the last ``stack_unused_bytes`` and ``heap_unused_bytes``.
    """

    pool: Region
    tail_bytes: int
    foreign_bytes: int
    foreign_at: int
    changed_bytes: int
    changed: Region
    stack: int
    heap: Region
    stack_bytes: int
    stack_unused_bytes: int
    heap_bytes: int
    heap_unused_bytes: int


@dataclass(frozen=True)
class CanaryResult:
    """One size, built into the example and run.

    ``sighting`` is None where the sketch never came to its report: ``silent`` is then the bench's
    sentence for that.  ``printed`` are the last lines that the example itself printed.
    """

    size_bytes: int
    image: Image
    sighting: Sighting | None
    silent: str | None
    printed: tuple[str, ...]

    @property
    def overlap_bytes(self) -> int:
        """Bytes of the globals inside the reservation that the linker names."""
        reserved = self.image.reserved
        return self.image.globals.overlap_bytes(reserved) if reserved is not None else 0

    @property
    def findings(self) -> tuple[str, ...]:
        """A sentence for each sign that the globals share memory with stack or heap."""
        found = []
        if self.overlap_bytes:
            found.append(f"the linker placed {self.overlap_bytes} B of globals in the reservation")
        seen = self.sighting
        if seen is not None:
            shared = seen.heap.overlap_bytes(self.image.globals)
            if shared:
                found.append(f"malloc gave out {shared} B that are globals")
            if seen.stack in self.image.globals:
                found.append(f"the stack stood at 0x{seen.stack:08x}, inside the globals")
            if seen.foreign_bytes:
                found.append(
                    f"{seen.foreign_bytes} B of the pool's tail were written before setup(), from"
                    f" 0x{seen.foreign_at:08x} on"
                )
            if seen.changed_bytes:
                found.append(
                    f"{seen.changed_bytes} B of the pool's tail, which the model never uses, were"
                    f" written during the run, from 0x{seen.changed.start:08x} on"
                )
        elif self.silent is not None:
            found.append(f"the sketch did not come to its loop: {self.silent}")
        return tuple(found)


def canary_sketch(sketch: Sketch, pool: Pool, *, size_bytes: int, used_bytes: int) -> Sketch:
    """The example with a pool of ``size_bytes``, of which the model uses ``used_bytes``.

    It has a name of its own, so that its list of files does not wipe the example's build path.
    Raises :class:`UsageError` where the sketch has no one ``setup()`` and ``loop()`` to hook into.
    """
    named = with_pool(sketch, pool, size_bytes)
    text = named.files[f"{sketch.name}.ino"].decode("utf-8", "replace")
    begin = f"hil_canary_begin({pool.name}, sizeof({pool.name}));"
    text = _hook(text, _SETUP, f'#include "hil_canary.h"\n\\g<0>\n  {begin}', "setup", sketch.name)
    text = _hook(text, _LOOP, "\\g<0>\n  hil_canary_end();", "loop", sketch.name)
    files = {name: data for name, data in named.files.items() if name != f"{sketch.name}.ino"}
    for folder, names in _FILES.items():
        files |= {name: (sketches_dir() / folder / name).read_bytes() for name in names}
    own = Sketch(f"{sketch.name}{SUFFIX}", sketch.source, files)
    own = own.with_files({f"{own.name}.ino": text.encode()})
    used = -(-used_bytes // ALIGNMENT) * ALIGNMENT
    header = (
        "#pragma once\n"
        f'#define HIL_CANARY_ID "{own.digest[:16]}"\n'
        f"#define HIL_CANARY_USED {used}u\n"
        "#define HIL_CANARY_LARGEST_BLOCK (1u << 22)\n"
    )
    return own.with_files({"hil_canary_id.h": header.encode()})


def _hook(text: str, pattern: re.Pattern[str], new: str, what: str, name: str) -> str:
    hooked, count = pattern.subn(new, text)
    if count != 1:
        raise UsageError(
            f"{what}() occurs {count} times in {name}.ino, not once",
            remedy="upstream changed the sketch: adapt the canary's hooks to its new text",
        )
    return hooked


def identity_of(sketch: Sketch) -> str:
    """What the canary in this sketch signs its records with."""
    match = re.search(rb'HIL_CANARY_ID "(\w+)"', sketch.files["hil_canary_id.h"])
    assert match is not None
    return match[1].decode()


def run_canary(
    bench: Bench,
    sketch: Sketch,
    pool: Pool,
    *,
    size_bytes: int,
    used_bytes: int,
    progress: Callable[[str], None],
) -> CanaryResult:
    """Build, flash and run one size; one flash.

    A sketch that falls silent, crashes or stops early is a result, not an error: that is what an
    overlap may do.  What breaks on the way to the board is raised.
    """
    progress(f"one flash: {sketch.name} with an arena of {size_bytes} B and a canary beside it")
    variant = canary_sketch(sketch, pool, size_bytes=size_bytes, used_bytes=used_bytes)
    firmware = bench.firmware(variant)
    image = read_image(firmware.elf, pool.name, ram_bytes=bench.request.core_version.ram_bytes)
    session = bench.boot(firmware)
    identity = identity_of(variant)
    sighting, silent = None, None
    try:
        session.expect(
            rb'@hil \{"n":"%b","s":0,"v":"reach"[^\n]*\n' % identity.encode(),
            timeout_s=REPORT_TIMEOUT_S,
        )
    except (DutFailure, BoardSilent) as error:
        # What was expected of a crashed board is the bench's affair.
        crashed = isinstance(error, BoardCrashed)
        silent = error.message.rpartition("; ")[0] if crashed else error.message
        said = session.received_since_boot()
    else:
        said = ((session.before or b"") + _bytes(session.after)).decode("utf-8", "replace")
        sighting = read_sighting(said, identity)
        if sighting is None:
            silent = "its records came damaged"
    return CanaryResult(size_bytes, image, sighting, silent, printed_lines(said))


def _bytes(matched: object) -> bytes:
    return matched if isinstance(matched, bytes) else b""


def printed_lines(text: str, *, most: int = 4) -> tuple[str, ...]:
    """The last lines that the sketch printed itself: no records, none of the runtime's log."""
    lines = (line.strip() for line in text.splitlines())
    own = [line for line in lines if line and not line.startswith(("@hil ", "ET| "))]
    return tuple(own[-most:])


def read_sighting(text: str, identity: str) -> Sighting | None:
    """The two records of the canary with this identity, or None where one is missing or damaged."""
    records: dict[str, Record] = {}
    for piece in text.encode("utf-8", "replace").split(MARKER)[1:]:
        framed = split_frame(piece.split(b"\n")[0])
        if framed is None:
            continue
        try:
            record = decode_body(framed[0])
        except MalformedRecord:
            continue
        if record.nonce == identity:
            records[record.verb] = record
    try:
        tail, reach = records["canary"], records["reach"]
        pool_at = tail.integer("pool")
        return Sighting(
            pool=Region(pool_at, pool_at + tail.integer("bytes")),
            tail_bytes=tail.integer("tail"),
            foreign_bytes=tail.integer("foreign"),
            foreign_at=tail.integer("at"),
            changed_bytes=tail.integer("changed"),
            changed=Region(tail.integer("first"), tail.integer("last")),
            stack=reach.integer("stack"),
            heap=Region(reach.integer("low"), reach.integer("high")),
            stack_bytes=reach.integer("stacked"),
            stack_unused_bytes=reach.integer("unused"),
            heap_bytes=reach.integer("heaped"),
            heap_unused_bytes=reach.integer("spare"),
        )
    except (KeyError, MalformedRecord):
        return None
