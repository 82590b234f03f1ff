"""A tiny generator of tensor contents that the bench and a board compute alike from a seed.

An input of many kilobytes then needs no wire: both sides fill the tensor's memory, first byte to
last, from the same seed.  The runner sketch has the same in C++.

State: the seed, an unsigned 32-bit number; 0 stands for 1, since xorshift never leaves 0.  One
step gives one element, whatever its type (Marsaglia's xorshift32, 13, 17, 5)::

    x ^= x << 13;  x ^= x >> 17;  x ^= x << 5        (all modulo 2**32)

    float32       ((int32)(x >> 8) - 8388608) / 8388608      in [-1, 1), exact: 24 bits, power of 2
    int8          (int8)(x >> 24)
    int32, int64  (int32)x
    bool          x >> 31
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice

from harness.errors import UsageError

_MASK = 0xFFFFFFFF


def words(seed: int) -> Iterator[int]:
    """Every ``x`` after the seed, without end.  Raises :class:`UsageError` on a seed out of range.

    ``seed``: 0 to 2**32 - 1.
    """
    if not 0 <= seed <= _MASK:
        raise UsageError(
            f"the seed {seed!r} does not fit 32 bits", remedy="choose one from 0 to 4294967295"
        )
    return _words(seed or 1)


def floats(seed: int, count: int) -> list[float]:
    """``count`` numbers in [-1, 1), each exactly a float32."""
    return [_float(x) for x in islice(words(seed), count)]


def seeded_bytes(dtype: str, count: int, seed: int) -> bytes:
    """``count`` elements of ``dtype``, little-endian, in the order of the tensor's memory.

    Raises :class:`UsageError` for a type that the generator is not defined for.
    """
    if dtype not in _ELEMENTS:
        raise UsageError(
            f"a tensor of {dtype!r} cannot be filled from a seed",
            remedy=f"give its bytes, or choose one of {', '.join(sorted(_ELEMENTS))}",
        )
    code, element = _ELEMENTS[dtype]
    return struct.pack(f"<{count}{code}", *(element(x) for x in islice(words(seed), count)))


def _words(x: int) -> Iterator[int]:
    while True:
        x ^= (x << 13) & _MASK
        x ^= x >> 17
        x ^= (x << 5) & _MASK
        yield x


def _float(x: int) -> float:
    return ((x >> 8) - 8388608) / 8388608.0


def _int8(x: int) -> int:
    top = x >> 24
    return top - 256 if top > 127 else top


def _int32(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


def _bool(x: int) -> bool:
    return bool(x >> 31)


_ELEMENTS: dict[str, tuple[str, Callable[[int], float | int | bool]]] = {
    "float32": ("f", _float),
    "int8": ("b", _int8),
    "int32": ("i", _int32),
    "int64": ("q", _int32),
    "bool": ("?", _bool),
}
