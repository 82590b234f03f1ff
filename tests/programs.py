"""Builds small ``.pte`` programs by hand, so that tests need no torch and commit no model.

Two layers: :func:`flatbuffer` writes any tree of tables, and :class:`ProgramBuilder` a program.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Number(NamedTuple):
    """A field of ``struct`` code ``code``."""

    code: str
    value: float


class Numbers(NamedTuple):
    """A list of numbers of ``struct`` code ``code``."""

    code: str
    values: Sequence[float]


Node = Mapping[int, "Field"]
Field = Number | Numbers | str | Node | Sequence[Node]


def flatbuffer(root: Node, *, identifier: bytes = b"ET12", gap: int = 0) -> bytes:
    """The bytes of a buffer; ``gap`` bytes are left free after the identifier for a header."""
    out = bytearray(8 + gap)
    out[4:8] = identifier
    _reference(out, 0, _write(out, root))
    return bytes(out)


def _write(out: bytearray, item: Field) -> int:
    if isinstance(item, str):
        return _write_text(out, item)
    if isinstance(item, Numbers):
        width = struct.calcsize(item.code)
        _pad(out, max(width, 4), 4)
        at = len(out)
        out += struct.pack(f"<I{len(item.values)}{item.code}", len(item.values), *item.values)
        return at
    if isinstance(item, Mapping):
        return _write_table(out, item)
    assert not isinstance(item, Number)
    _pad(out, 4, 0)
    at = len(out)
    out += struct.pack("<I", len(item)) + bytes(4 * len(item))
    for number, each in enumerate(item):
        _reference(out, at + 4 + 4 * number, _write(out, each))
    return at


def _write_text(out: bytearray, text: str) -> int:
    _pad(out, 4, 0)
    at = len(out)
    raw = text.encode()
    out += struct.pack("<I", len(raw)) + raw + b"\0"
    return at


def _write_table(out: bytearray, node: Node) -> int:
    sizes = {
        slot: struct.calcsize(item.code) if isinstance(item, Number) else 4
        for slot, item in node.items()
    }
    order = sorted(node, key=lambda slot: -sizes[slot])
    places = {}
    length = 4
    for slot in order:
        places[slot] = length
        length += sizes[slot]
    slots = max(node, default=-1) + 1
    _pad(out, 2, 0)
    vtable = len(out)
    out += struct.pack("<HH", 4 + 2 * slots, length)
    out += struct.pack(f"<{slots}H", *(places.get(slot, 0) for slot in range(slots)))
    _pad(out, 8, 4)
    at = len(out)
    out += struct.pack("<i", at - vtable) + bytes(length - 4)
    for slot, item in node.items():
        place = at + places[slot]
        if isinstance(item, Number):
            value = item.value if item.code == "d" else int(item.value)
            struct.pack_into(f"<{item.code}", out, place, value)
        else:
            _reference(out, place, _write(out, item))
    return at


def _pad(out: bytearray, align: int, rest: int) -> None:
    """Zeros until the end is ``rest`` past a multiple of ``align`` (or as near as it can be)."""
    while len(out) % align != rest % align:
        out.append(0)


def _reference(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


DTYPES = {"uint8": 0, "int8": 1, "int32": 3, "int64": 4, "float16": 5, "float32": 6}
WIDTHS = {"uint8": 1, "int8": 1, "int32": 4, "int64": 8, "float16": 2, "float32": 4}
NHWC = (0, 2, 3, 1)


@dataclass
class ProgramBuilder:
    """One program of one method.  Values are added first and named by the number returned."""

    name: str = "forward"
    values: list[Node] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    instructions: list[Node] = field(default_factory=list)
    delegates: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=lambda: [0, 4096])
    constants: list[bytes] = field(default_factory=list)

    def value(self, kind: int, content: Node) -> int:
        """Any value of the schema's union."""
        self.values.append({0: Number("B", kind), 1: content})
        return len(self.values) - 1

    def none(self) -> int:
        return self.value(1, {})

    def whole(self, number: int) -> int:
        return self.value(2, {0: Number("q", number)})

    def flag(self, value: bool) -> int:
        return self.value(3, {0: Number("B", value)})

    def real(self, number: float) -> int:
        return self.value(4, {0: Number("d", number)})

    def wholes(self, *numbers: int) -> int:
        items = [self.whole(number) for number in numbers]
        return self.value(7, {0: Numbers("q", items)})

    def tensor(
        self,
        dtype: str,
        *sizes: int,
        dim_order: Sequence[int] | None = None,
        data: bytes | None = None,
        planned: tuple[int, int] | None = (1, 0),
        external: str | None = None,
    ) -> int:
        """A tensor: constant where ``data`` is given, else planned at (buffer, offset)."""
        node: dict[int, Field] = {
            0: Number("b", DTYPES[dtype]),
            2: Numbers("i", sizes),
            3: Numbers("B", range(len(sizes)) if dim_order is None else dim_order),
        }
        if data is not None:
            self.constants.append(data)
            node[5] = Number("I", len(self.constants))
        elif external is not None:
            node[9] = {1: external, 2: Number("b", 1)}
        elif planned is not None:
            node[6] = {0: Number("I", planned[0]), 1: Number("I", planned[1])}
        return self.value(5, node)

    def call(self, operator: str, *arguments: int) -> None:
        """A kernel call."""
        if operator not in self.operators:
            self.operators.append(operator)
        index = self.operators.index(operator)
        self.instructions.append(
            {0: Number("B", 1), 1: {0: Number("i", index), 1: Numbers("i", arguments)}}
        )

    def delegate(self, backend: str) -> None:
        """A subgraph for ``backend``, with its data in segment 0."""
        self.delegates.append({0: backend, 1: {0: Number("b", 1), 1: Number("I", 0)}, 2: []})

    def build(self, *, identifier: bytes = b"ET12", header: bool = True) -> bytes:
        """The file: program, then constants 16-aligned in a segment that starts 128-aligned."""
        segment = bytearray()
        offsets = [0]
        for data in self.constants:
            segment += bytes(-len(segment) % 16)
            offsets.append(len(segment))
            segment += data
        with_header = header and bool(segment)
        gap = 32 if with_header else 0
        body = flatbuffer(self._root(offsets, len(segment)), identifier=identifier, gap=gap)
        if len(body) < 64:
            body += bytes(64 - len(body))
        base = len(body) + -len(body) % 128
        if with_header:
            head = struct.pack("<4sIQQQ", b"eh00", 32, len(body), base, len(segment))
            body = body[:8] + head + body[40:]
        return body + bytes(base - len(body)) + bytes(segment) if segment else body

    def _root(self, offsets: list[int], segment_bytes: int) -> Node:
        operators = []
        for name in self.operators:
            stem, _, overload = name.partition(".")
            operators.append({0: stem, 1: overload} if overload else {0: stem})
        plan: Node = {
            0: self.name,
            2: self.values,
            3: Numbers("i", self.inputs),
            4: Numbers("i", self.outputs),
            5: [{2: self.instructions}],
            6: operators,
            7: self.delegates,
            8: Numbers("q", self.buffers),
        }
        return {
            1: [plan],
            4: [{0: Number("Q", 0), 1: Number("Q", segment_bytes)}],
            5: {0: Number("I", 0), 1: Numbers("Q", offsets)},
        }


def add_program(dtype: str = "float32") -> ProgramBuilder:
    """x + constant, as the library's own AddModel example."""
    made = ProgramBuilder()
    constant = made.tensor(dtype, data=bytes(WIDTHS[dtype]))
    source = made.tensor(dtype, 3)
    alpha = made.whole(1)
    output = made.tensor(dtype, 3, planned=(1, 64))
    made.call("aten::add.out", source, constant, alpha, output, output)
    made.inputs, made.outputs = [source], [output]
    return made


def int8_edges(
    made: ProgramBuilder, *sizes: int, dim_order: Sequence[int] | None = None
) -> tuple[int, int]:
    """A float input that is quantized: the numbers of the input and of its int8 form."""
    source = made.tensor("float32", *sizes, dim_order=dim_order)
    quantized = made.tensor("int8", *sizes, dim_order=dim_order)
    rest = [made.real(0.5), *(made.whole(number) for number in (0, -128, 127, 1))]
    made.call("cortex_m::quantize_per_tensor.out", source, *rest, quantized, quantized)
    made.inputs.append(source)
    return source, quantized


def dequantized_output(made: ProgramBuilder, quantized: int, *sizes: int) -> None:
    """A float output made from the int8 value ``quantized``."""
    output = made.tensor("float32", *sizes)
    rest = [made.real(0.5), *(made.whole(number) for number in (0, -128, 127, 1))]
    made.call("cortex_m::dequantize_per_tensor.out", quantized, *rest, output, output)
    made.outputs = [output]


def linear_program(
    *, bias: bool = False, kernel_sum: Sequence[int] | None = None
) -> ProgramBuilder:
    """Two int8 outputs from three int8 inputs; weights 1 2 3 and 4 5 6, input offset 10.

    Without a bias the kernel sums are 60 and 150.
    """
    made = ProgramBuilder()
    _, quantized = int8_edges(made, 1, 3)
    weights = made.tensor("int8", 2, 3, data=bytes([1, 2, 3, 4, 5, 6]))
    bias_value = made.tensor("int32", 2, data=struct.pack("<2i", 7, 8)) if bias else made.none()
    sums = (
        made.none()
        if kernel_sum is None
        else made.tensor("int32", 1, 2, data=struct.pack("<2i", *kernel_sum))
    )
    numbers = [made.whole(number) for number in (10, 0, -5)]
    lists = [made.wholes(1 << 30), made.wholes(-3)]
    limits = [made.whole(127), made.whole(-128)]
    output = made.tensor("int8", 1, 2)
    made.call(
        "cortex_m::quantized_linear.out",
        quantized, weights, bias_value, sums, *numbers, *lists, *limits, output, output,
    )  # fmt: skip
    dequantized_output(made, output, 1, 2)
    return made


def average_pool_program(
    *, scratch_bytes: int, channels: int = 4, dim_order: Sequence[int] = NHWC
) -> ProgramBuilder:
    """A 2 by 2 average over maps of 8 by 8."""
    made = ProgramBuilder()
    _, quantized = int8_edges(made, 1, channels, 8, 8, dim_order=dim_order)
    shape = [made.wholes(2, 2), made.wholes(2, 2), made.wholes(0, 0)]
    rest = [made.flag(False), *(made.whole(number) for number in (0, 1 << 30, -6))]
    scratch = made.tensor("uint8", scratch_bytes)
    output = made.tensor("int8", 1, channels, 4, 4, dim_order=dim_order)
    made.call(
        "cortex_m::quantized_avg_pool2d.out", quantized, *shape, *rest, scratch, output, output
    )
    dequantized_output(made, output, 1, channels, 4, 4)
    return made


def convolution_program(
    *,
    scratch_bytes: int,
    channels: int = 3,
    dim_order: Sequence[int] = NHWC,
    with_scratch: bool = True,
) -> ProgramBuilder:
    """A 3 by 3 int8 convolution to 8 channels; ``with_scratch`` False is the schema of 1.3.1."""
    made = ProgramBuilder(buffers=[0, 65536])
    _, source = int8_edges(made, 1, channels, 8, 8, dim_order=dim_order)
    weights = made.tensor("int8", 8, 3, 3, channels, data=bytes(72 * channels))
    eight = [made.tensor("int32", 8, data=bytes(32)) for _ in range(3)]
    shape = [made.wholes(1, 1), made.wholes(1, 1), made.wholes(1, 1)]
    offsets, limits = [made.whole(1), made.whole(2)], [made.whole(-128), made.whole(127)]
    scratch = [made.tensor("uint8", scratch_bytes)] if with_scratch else []
    output = made.tensor("int8", 1, 8, 8, 8, dim_order=dim_order)
    made.call(
        "cortex_m::quantized_conv2d.out",
        source, weights, eight[0], *shape, *offsets, eight[1], eight[2], *limits, *scratch,
        output, output,
    )  # fmt: skip
    dequantized_output(made, output, 1, 8, 8, 8)
    return made


def float_convolution_program(
    *, cortex_m: bool, rank: int = 4, dim_order: Sequence[int] | None = None
) -> ProgramBuilder:
    """A float convolution, alone or between quantize and dequantize of Cortex-M."""
    made = ProgramBuilder(buffers=[0, 65536])
    spatial = (8,) * (rank - 2)
    source = made.tensor("float32", 1, 3, *spatial, dim_order=dim_order)
    weights = made.tensor(
        "float32", 8, 3, *((3,) * (rank - 2)), data=bytes(4 * 24 * 3 ** (rank - 2))
    )
    bias = made.tensor("float32", 8, data=bytes(32))
    ones = (1,) * (rank - 2)
    lists = [made.wholes(*ones) for _ in range(3)]
    rest = [made.flag(False), made.wholes(*ones), made.whole(1)]
    output = made.tensor("float32", 1, 8, *spatial, dim_order=dim_order)
    made.call("aten::convolution.out", source, weights, bias, *lists, *rest, output, output)
    made.inputs, made.outputs = [source], [output]
    if cortex_m:
        quantized = made.tensor("int8", 1, 8, *spatial)
        numbers = [made.real(0.5), *(made.whole(number) for number in (0, -128, 127, 1))]
        made.call("cortex_m::quantize_per_tensor.out", output, *numbers, quantized, quantized)
    return made
