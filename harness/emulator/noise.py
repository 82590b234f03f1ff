"""What a misbehaving route does to bytes and prints on their way; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from harness.emulator.behaviour import Behaviour, Bytes, Injected, Turns, Where

INJECTED: Mapping[Injected, bytes] = {
    Injected.NUL: b"\x00\x00\x00",
    Injected.BAD_UTF8: b"\xff\xfe\xc3(\x80",
    # Clears the screen, sets a title, moves up: what a terminal would obey.
    Injected.TERMINAL_ESCAPES: b"\x1b[2J\x1b]0;owned\x07\x1b[10A\x9b31m",
}
"""The bytes of each injection: hostile to a reader that decodes or shows them as they are."""

Hit = Callable[[int, random.Random], bytes]


def _drop(value: int, chance: random.Random) -> bytes:
    del value, chance
    return b""


def _double(value: int, chance: random.Random) -> bytes:
    del chance
    return bytes((value, value))


def _garble(value: int, chance: random.Random) -> bytes:
    return bytes((value ^ 1 << chance.randrange(8),))


class ByteNoise:
    """One byte in each ``every_bytes`` becomes what ``hit`` makes of it."""

    def __init__(self, fault: Bytes, hit: Hit, turns: Turns) -> None:
        self.fault = fault
        self._hit = hit
        self._turns = turns
        self._chance = random.Random(fault.seed)
        self._next = self._chance.randrange(fault.every_bytes)
        self._rest = fault.every_bytes - self._next

    def passed(self, data: bytes) -> bytes:
        """``data`` as it comes out."""
        out = bytearray()
        at = 0
        while len(data) - at > self._next:
            at += self._next
            out += data[at - self._next : at]
            hit = self._turns.take(self.fault)
            out += self._hit(data[at], self._chance) if hit else data[at : at + 1]
            at += 1
            place = self._chance.randrange(self.fault.every_bytes)
            self._next = self._rest - 1 + place
            self._rest = self.fault.every_bytes - place
        self._next -= len(data) - at
        return bytes(out + data[at:])


class Noise:
    """Every fault of a :class:`Behaviour` that hits what a sketch prints."""

    def __init__(self, behaviour: Behaviour, turns: Turns) -> None:
        self._behaviour = behaviour
        self._turns = turns
        made = [
            ByteNoise(fault, hit, turns)
            for fault, hit in (
                (behaviour.bytes_dropped, _drop),
                (behaviour.bytes_doubled, _double),
                (behaviour.bytes_garbled, _garble),
            )
            if fault is not None
        ]
        self._port = [each for each in made if each.fault.where is Where.PORT]
        self._uart = [each for each in made if each.fault.where is Where.UART]
        self._prints = 0
        self._kept: bytes | None = None

    def on_uart(self, piece: bytes) -> bytes:
        """What of the chip's bytes reaches the router."""
        for each in self._uart:
            piece = each.passed(piece)
        return piece

    def on_print(self, fragment: bytes) -> list[bytes]:
        """The fragments that one print becomes, in order."""
        self._prints += 1
        out = self._reordered(fragment)
        out += self._added()
        for each in self._port:
            out = [each.passed(piece) for piece in out]
        return [piece for piece in out if piece]

    def boots(self) -> None:
        """The chip starts: prints are counted anew."""
        self._prints = 0
        self._kept = None

    def _reordered(self, fragment: bytes) -> list[bytes]:
        kept, self._kept = self._kept, None
        if kept is not None:
            return [fragment, kept]
        reorder, repeat = self._behaviour.prints_reordered, self._behaviour.prints_repeated
        if reorder and self._prints % reorder.every_prints == 0 and self._turns.take(reorder):
            # Held until the next one has overtaken it.
            self._kept = fragment
            return []
        if repeat and self._prints % repeat.every_prints == 0 and self._turns.take(repeat):
            return [fragment, fragment]
        return [fragment]

    def _added(self) -> list[bytes]:
        added = []
        injected, line = self._behaviour.injected, self._behaviour.long_line
        if injected and self._prints > injected.after_prints and self._turns.take(injected):
            added += [INJECTED[each] for each in injected.what]
        if line and self._prints > line.after_prints and self._turns.take(line):
            added.append(b"x" * line.line_bytes)
        return added
