"""What a ``.pte`` program says, as frozen values; read by :mod:`harness.preflight.program`.

Names and meanings are those of ExecuTorch's ``schema/program.fbs``.  Sizes are in elements, buffers
in bytes; every index has been checked by the reader.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class ScalarType(NamedTuple):
    """A dtype: its number in the schema, the name used here, and the size of one element."""

    number: int
    name: str
    size_bytes: int


# schema/scalar_type.fbs; sizes as runtime/core/exec_aten/util/scalar_type_util.h has them.
SCALAR_TYPES = {
    number: ScalarType(number, name, size)
    for number, name, size in (
        (0, "uint8", 1),
        (1, "int8", 1),
        (2, "int16", 2),
        (3, "int32", 4),
        (4, "int64", 8),
        (5, "float16", 2),
        (6, "float32", 4),
        (7, "float64", 8),
        (11, "bool", 1),
        (12, "qint8", 1),
        (13, "quint8", 1),
        (14, "qint32", 4),
        (15, "bfloat16", 2),
        (16, "quint4x2", 1),
        (17, "quint2x4", 1),
        (22, "bits16", 2),
        (23, "float8_e5m2", 1),
        (24, "float8_e4m3fn", 1),
        (25, "float8_e5m2fnuz", 1),
        (26, "float8_e4m3fnuz", 1),
        (27, "uint16", 2),
        (28, "uint32", 4),
        (29, "uint64", 8),
    )
}


class Dynamism(Enum):
    """Whether a tensor's sizes are fixed, upper bounds, or unknown."""

    STATIC = 0
    BOUND = 1
    UNBOUND = 2


@dataclass(frozen=True, slots=True)
class Allocation:
    """Place of a planned tensor: buffer number (1 is the first) and offset in bytes."""

    memory_id: int
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor.  ``constant`` is its place in the program's constants, 0 for none.

    ``external`` names its data in a separate ``.ptd`` file.
    """

    scalar: ScalarType
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: Dynamism
    constant: int
    allocation: Allocation | None
    external: str | None

    @property
    def dtype(self) -> str:
        """Name of the element type, e.g. ``float32``."""
        return self.scalar.name

    @property
    def elements(self) -> int:
        """Number of elements (an upper bound where the sizes are)."""
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return self.elements * self.scalar.size_bytes

    @property
    def is_constant(self) -> bool:
        """Whether the data is in the program and never written."""
        return self.constant > 0 and self.allocation is None

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(str(size) for size in self.sizes)}]"


@dataclass(frozen=True, slots=True)
class IntList:
    """Numbers that may be computed: places in the method's values."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DoubleList:
    """Numbers."""

    items: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class BoolList:
    """Flags."""

    items: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class TensorList:
    """Tensors: places in the method's values; -1 stands for none where ``optional``."""

    items: tuple[int, ...]
    optional: bool


Value = Tensor | IntList | DoubleList | BoolList | TensorList | int | float | bool | str | None


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Call of ``operators[operator]`` with the values numbered ``arguments``, outputs included."""

    operator: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Call of ``delegates[delegate]``."""

    delegate: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveCall:
    """Copy of one value over another."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpFalseCall:
    """Jump to ``destination`` when the value ``condition`` is false."""

    condition: int
    destination: int


@dataclass(frozen=True, slots=True)
class FreeCall:
    """Release of a value's memory."""

    value: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass(frozen=True, slots=True)
class Delegate:
    """One subgraph handed to a backend; ``spec_bytes`` counts its compile specifications."""

    backend: str
    spec_bytes: int


@dataclass(frozen=True, slots=True)
class Method:
    """One entry point.  ``planned_bytes`` are the memory-planned buffers, the first unused."""

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    chains: tuple[tuple[Instruction, ...], ...]
    operators: tuple[str, ...]
    delegates: tuple[Delegate, ...]
    buffer_bytes: tuple[int, ...]

    @property
    def planned_bytes(self) -> tuple[int, ...]:
        """Sizes of the buffers that a caller must provide."""
        return self.buffer_bytes[1:]


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the file after the program: place and size in bytes."""

    offset_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ExtendedHeader:
    """The header inside the file's first 64 bytes (``schema/extended_header.h``)."""

    length_bytes: int
    program_bytes: int
    segment_base_bytes: int
    segment_data_bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """One whole program.  ``constants`` are the places of constant data, in file bytes."""

    schema_version: int
    header: ExtendedHeader | None
    methods: tuple[Method, ...]
    segments: tuple[Segment, ...]
    named_data: tuple[str, ...]
    constant_segment: Segment | None
    constants: tuple[int, ...]
    deprecated_constants: int
    used_bytes: int
    data: bytes = field(repr=False)

    def constant_bytes(self, tensor: Tensor) -> memoryview | None:
        """The bytes of a constant tensor, or None where they are not in a segment."""
        if not tensor.is_constant or self.constant_segment is None:
            return None
        start = self.constants[tensor.constant]
        return memoryview(self.data)[start : start + tensor.nbytes]
