from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.clock import monotonic_s
from harness.preflight import flatbuffer as reader
from harness.preflight.check import preflight
from harness.preflight.finding import PreflightVerdict
from harness.preflight.flatbuffer import CorruptProgram
from harness.preflight.program import NotAProgram, read_program
from harness.preflight.program_types import IntList, KernelCall, Tensor
from tests.programs import (
    Number,
    Numbers,
    ProgramBuilder,
    add_program,
    convolution_program,
    flatbuffer,
    linear_program,
)


def test_everything_of_a_small_program_is_read() -> None:
    program = read_program(add_program().build())
    (method,) = program.methods
    assert method.name == "forward"
    assert method.operators == ("aten::add.out",)
    assert method.chains == ((KernelCall(0, (1, 0, 2, 3, 3)),),)
    assert method.planned_bytes == (4096,)
    constant, source, alpha, output = method.values
    assert isinstance(constant, Tensor)
    assert isinstance(source, Tensor)
    assert isinstance(output, Tensor)
    assert (source.dtype, source.sizes, source.dim_order, source.nbytes) == (
        "float32",
        (3,),
        (0,),
        12,
    )
    assert constant.is_constant
    assert not source.is_constant
    data = program.constant_bytes(constant)
    assert data is not None
    assert bytes(data) == bytes(4)
    assert output.allocation is not None
    assert output.allocation.offset_bytes == 64
    assert alpha == 1
    assert (method.inputs, method.outputs) == ((1,), (3,))


def test_lists_and_channels_last_are_read() -> None:
    method = read_program(convolution_program(scratch_bytes=112).build()).methods[0]
    assert any(isinstance(value, IntList) and len(value.items) == 2 for value in method.values)
    assert any(isinstance(v, Tensor) and v.dim_order == (0, 2, 3, 1) for v in method.values)


def test_bytes_after_the_program_change_nothing() -> None:
    data = linear_program().build()
    plain, longer = read_program(data), read_program(data + b"rubbish" * 9)
    assert longer.methods == plain.methods
    assert longer.used_bytes == len(data)


def test_a_program_without_data_needs_no_header() -> None:
    made = ProgramBuilder()
    source = made.tensor("float32", 3)
    made.call("aten::relu.out", source, source, source)
    made.inputs = made.outputs = [source]
    program = read_program(made.build())
    assert program.header is None
    assert program.constant_segment is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not the identifier"),
        (b"\x7fELF" * 40, "not the identifier"),
        (add_program().build(identifier=b"BP08"), "bundled program"),
        (add_program().build(identifier=b"ET11"), "the runtime takes b'ET12'"),
    ],
)
def test_a_file_of_another_kind_is_no_program(data: bytes, says: str) -> None:
    with pytest.raises(NotAProgram, match=says):
        read_program(data)


def patched(data: bytes, at: int, code: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f"<{code}", changed, at, value)
    return bytes(changed)


GOOD = linear_program(bias=True).build()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (GOOD[:40], "40 bytes long"),
        (GOOD[:-1], "cut short"),
        (GOOD[: len(GOOD) // 2], "cut short"),
        (patched(GOOD, 8, "I", 0), "no extended header"),
        (patched(GOOD, 12, "I", 23), "23 bytes long"),
        (patched(GOOD, 16, "Q", 1 << 40), "cut short"),
        (patched(GOOD, 24, "Q", (1 << 64) - 1), "cut short"),
        (patched(GOOD, 24, "Q", int.from_bytes(GOOD[24:32], "little") - 16), "does not follow"),
        (patched(GOOD, 0, "I", 1 << 31), "outside"),
        (patched(GOOD, 0, "I", 3), "the reference to root"),
    ],
)
def test_a_damaged_head_is_corrupt(data: bytes, says: str) -> None:
    with pytest.raises(CorruptProgram, match=says):
        read_program(data)


def _bad_argument(made: ProgramBuilder) -> None:
    made.call("aten::relu.out", 0, 99, 0)


def _bad_operator(made: ProgramBuilder) -> None:
    made.instructions.append({0: Number("B", 1), 1: {0: Number("i", 7), 1: Numbers("i", [0])}})


def _unknown_instruction(made: ProgramBuilder) -> None:
    made.instructions.append({0: Number("B", 9), 1: {}})


def _far_jump(made: ProgramBuilder) -> None:
    made.instructions.append({0: Number("B", 4), 1: {0: Number("i", 0), 1: Number("i", 50)}})


def _bad_input(made: ProgramBuilder) -> None:
    made.inputs.append(-1)


def _list_of_tensors_as_numbers(made: ProgramBuilder) -> None:
    made.value(7, {0: Numbers("q", [1])})


def _list_past_the_end(made: ProgramBuilder) -> None:
    made.value(10, {0: Numbers("i", [400])})


def _planned_nowhere(made: ProgramBuilder) -> None:
    made.tensor("float32", 3, planned=(0, 0))


def _planned_past_the_end(made: ProgramBuilder) -> None:
    made.tensor("float32", 3, planned=(1, 4090))


def _short_constant(made: ProgramBuilder) -> None:
    made.tensor("float32", 3, data=b"1234")


def _negative_size(made: ProgramBuilder) -> None:
    made.tensor("float32", -3)


def _huge(made: ProgramBuilder) -> None:
    made.tensor("float32", *[1 << 30] * 16, planned=None)


def _order_is_no_permutation(made: ProgramBuilder) -> None:
    made.tensor("float32", 2, 2, dim_order=(0, 0))


def _rank_17(made: ProgramBuilder) -> None:
    made.tensor("float32", *[1] * 17)


def _unknown_dtype(made: ProgramBuilder) -> None:
    made.value(5, {0: Number("b", 99), 2: Numbers("i", []), 3: Numbers("B", [])})


def _unknown_value(made: ProgramBuilder) -> None:
    made.value(42, {})


def _negative_buffer(made: ProgramBuilder) -> None:
    made.buffers.append(-5)


def _delegate_without_data(made: ProgramBuilder) -> None:
    made.delegates.append({0: "X", 1: {0: Number("b", 0), 1: Number("I", 3)}})


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_bad_argument, "number 99 of 4"),
        (_bad_operator, "number 7 of 1"),
        (_unknown_instruction, "unknown kind 9"),
        (_far_jump, "number 50 of 3"),
        (_bad_input, "number -1 of 4"),
        (_list_of_tensors_as_numbers, "another kind"),
        (_list_past_the_end, "number 400 of 5"),
        (_planned_nowhere, "buffer 0 of 1"),
        (_planned_past_the_end, "byte 4102 of a buffer of 4096"),
        (_short_constant, "runs past the end of the constants"),
        (_negative_size, "has sizes"),
        (_huge, "bytes large"),
        (_order_is_no_permutation, "dimension order"),
        (_rank_17, "has sizes"),
        (_unknown_dtype, "unknown scalar type 99"),
        (_unknown_value, "unknown kind 42"),
        (_negative_buffer, "has buffers"),
        (_delegate_without_data, "number 3 of 0"),
    ],
)
def test_an_index_or_size_that_cannot_be_is_corrupt(
    damage: Callable[[ProgramBuilder], None], says: str
) -> None:
    made = add_program()
    damage(made)
    with pytest.raises(CorruptProgram, match=says):
        read_program(made.build())


def test_references_that_share_one_table_cannot_describe_a_program_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "MAX_TABLES", 100)
    made = add_program()
    for _ in range(100):
        made.none()
    with pytest.raises(CorruptProgram, match="more than 100 tables"):
        read_program(made.build())


def test_lists_that_share_their_items_cannot_grow_without_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "MAX_ELEMENTS", 50)
    with pytest.raises(CorruptProgram, match="more than 50 elements"):
        read_program(linear_program().build())


def test_a_method_without_a_name_is_corrupt() -> None:
    with pytest.raises(CorruptProgram, match="has no name"):
        read_program(flatbuffer({1: [{8: Numbers("q", [0])}]}) + bytes(64))


def test_a_program_without_methods_is_corrupt() -> None:
    with pytest.raises(CorruptProgram, match="no method"):
        read_program(flatbuffer({0: Number("I", 1)}) + bytes(64))


def outcome(data: bytes) -> PreflightVerdict:
    """The verdict of hostile bytes: any exception of ours is caught inside, any other fails."""
    started_s = monotonic_s()
    verdict = preflight(data, registration=None, cpu="m33").verdict
    assert monotonic_s() - started_s < 1
    return verdict


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_no_flipped_byte_of_the_structure_breaks_the_reader(flip: int) -> None:
    verdicts = {
        outcome(GOOD[:at] + bytes([GOOD[at] ^ flip]) + GOOD[at + 1 :]) for at in range(len(GOOD))
    }
    assert PreflightVerdict.CORRUPT in verdicts
    assert PreflightVerdict.OK in verdicts  # a weight's byte can't be seen by anyone


def test_no_truncation_passes_for_a_program() -> None:
    for length in range(len(GOOD)):
        assert outcome(GOOD[:length]) in (
            PreflightVerdict.CORRUPT,
            PreflightVerdict.NOT_A_PROGRAM,
        )


def test_words_written_over_the_structure_break_nothing() -> None:
    random_words = random.Random(20261129)
    for _ in range(1500):
        data = bytearray(GOOD)
        for _ in range(random_words.choice((1, 1, 2, 5))):
            at = random_words.randrange(8, len(data) - 4) & ~3
            value = random_words.choice((0, 1, 4, 0xFFFFFFFF, 0x7FFFFFFF, 1 << 20, len(data)))
            struct.pack_into("<I", data, at, value)
        outcome(bytes(data))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_after_the_identifier_give_a_verdict(tail: bytes) -> None:
    outcome(b"\x10\0\0\0ET12" + tail)


def test_programs_compare_by_value() -> None:
    program = read_program(GOOD)
    assert replace(program) == program
