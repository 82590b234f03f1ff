"""The band's upper side: where the sketch's globals would reach what the core keeps for itself.

Computed, from one build at the size that the sketch ships: another pool moves nothing but what
lies behind it, so no size needs a build of its own.  arduino-cli compares globals with the whole
of RAM and knows nothing of this limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.arena.image import Image
from harness.boards.board import CoreVersion

Basis = Literal["addresses of the ELF", "sizes of the board file"]


@dataclass(frozen=True)
class UpperSide:
    """Globals and reservation of a sketch on one core, in bytes.

    ``globals_bytes`` is at ``pool_bytes`` of pool.  ``room_bytes`` is what RAM leaves for globals
    beside ``stack_bytes`` and ``heap_bytes``.  ``basis``: whether the room is between addresses
    that the linker placed, or ``ram_bytes`` less the two that the board file gives.
    """

    globals_bytes: int
    pool_bytes: int
    ram_bytes: int
    stack_bytes: int
    heap_bytes: int
    room_bytes: int
    basis: Basis

    @property
    def reserves(self) -> bool:
        """Whether the core keeps anything out of the sketch's RAM."""
        return self.stack_bytes + self.heap_bytes > 0

    @property
    def largest_bytes(self) -> int:
        """The largest arena whose globals do not reach the reservation; negative: none."""
        return self.room_bytes - (self.globals_bytes - self.pool_bytes)

    def globals_at(self, size_bytes: int) -> int:
        """What the globals take with an arena of ``size_bytes``."""
        return self.globals_bytes + size_bytes - self.pool_bytes

    def reach_bytes(self, size_bytes: int) -> int:
        """How far they then reach into what the core reserves; 0 where they do not."""
        return max(0, self.globals_at(size_bytes) - self.room_bytes) if self.reserves else 0

    def fits_ram(self, size_bytes: int) -> bool:
        """Whether the linker would take it, knowing of the whole RAM only."""
        return self.globals_at(size_bytes) <= self.ram_bytes


def compute_upper(core: CoreVersion, *, ram_bytes: int, pool_bytes: int, image: Image) -> UpperSide:
    """The upper side, from the build's own figure of RAM and its ELF.

    Where the ELF marks the reservation, the room ends there and globals are counted from their
    first byte; otherwise both are sums of sizes, as in the library's README.
    """
    if image.reserved is not None:
        return UpperSide(
            globals_bytes=image.globals.size_bytes,
            pool_bytes=pool_bytes,
            ram_bytes=core.ram_bytes,
            stack_bytes=core.stack_bytes,
            heap_bytes=core.heap_bytes,
            room_bytes=image.reserved.start - image.globals.start,
            basis="addresses of the ELF",
        )
    return UpperSide(
        globals_bytes=ram_bytes,
        pool_bytes=pool_bytes,
        ram_bytes=core.ram_bytes,
        stack_bytes=core.stack_bytes,
        heap_bytes=core.heap_bytes,
        room_bytes=core.ram_bytes - core.stack_bytes - core.heap_bytes,
        basis="sizes of the board file",
    )
