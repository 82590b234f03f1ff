"""Records of the runner protocol whose text was changed on purpose get a checksum that fits.

A record with a private name in it, a path in the runtime's log, would else be read as damaged by
the cable.  What was damaged before stays so.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

from harness.runner.protocol import MARKER, crc16, split_frame
from harness.runner.record_stream import MAX_RECORD_BYTES


@dataclass(frozen=True)
class Frames:
    """Whole records of a transcript, as bytes ``start`` to ``end`` of what the checksum covers."""

    bodies: tuple[tuple[int, int], ...]

    def write(self, data: mmap.mmap) -> int:
        """Write each record's checksum for its text as it is now; returns how many there were."""
        for start, end in self.bodies:
            data[end : end + 5] = b"*%04X" % crc16(data[start:end])
        return len(self.bodies)


def mend_frames(data: mmap.mmap, places: list[tuple[int, int]]) -> Frames:
    """The records with right checksums in which the ``places`` lie, before those are changed."""
    bodies: dict[int, int] = {}
    for start, end in places:
        low = data.rfind(MARKER, max(0, start - MAX_RECORD_BYTES), start)
        if low < 0:
            continue
        body = low + len(MARKER)
        stop = data.find(b"\n", end, body + MAX_RECORD_BYTES)
        framed = split_frame(data[body : len(data) if stop < 0 else stop][:MAX_RECORD_BYTES])
        if framed is not None and end <= body + len(framed[0]):
            bodies[body] = body + len(framed[0])
    return Frames(tuple(sorted(bodies.items())))
