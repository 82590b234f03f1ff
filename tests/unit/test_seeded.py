from __future__ import annotations

import struct
from itertools import islice

import pytest

from harness.errors import UsageError
from harness.model.seeded import floats, seeded_bytes, words

# The runner sketch's generator must give the same; these are the numbers to compare it with.
VECTORS = {
    1: (0x00042021, 0x04080601, 0x9DCCA8C5, 0x1255994F, 0x8EF917D1, 0x2C6F5BD0),
    2: (0x00084042, 0x08008C02, 0x2998D882, 0x6398B906, 0xE3B0281A, 0x30D07323),
    0xDEADBEEF: (0x477D20B7, 0x8E1D9142, 0xBA8C2458, 0xFEE0503B, 0x680E0348, 0xA48DB81B),
    0xFFFFFFFF: (0x0003E01F, 0xFC07FDFF, 0x74BB9843, 0xF1CC88DA, 0x7A28EE91, 0x98A550EC),
}

SEED_1_BYTES = {
    "float32": "c0f77fbff4ef77bf40656e3ece545bbf",
    "int8": "00049d12",
    "int32": "2120040001060804c5a8cc9d4f995512",
    "int64": "21200400000000000106080400000000c5a8cc9dffffffff4f99551200000000",
    "bool": "00000100",
}


@pytest.mark.parametrize("seed", VECTORS)
def test_words_are_the_vectors(seed: int) -> None:
    assert tuple(islice(words(seed), 6)) == VECTORS[seed]


def test_seed_0_stands_for_1() -> None:
    assert tuple(islice(words(0), 6)) == VECTORS[1]


def test_a_thousand_steps_from_seed_1() -> None:
    assert next(islice(words(1), 999, None)) == 0x10173C27


@pytest.mark.parametrize("dtype", SEED_1_BYTES)
def test_first_four_elements_of_seed_1(dtype: str) -> None:
    assert seeded_bytes(dtype, 4, 1).hex() == SEED_1_BYTES[dtype]


def test_floats_are_exact_and_within_minus_1_and_1() -> None:
    values = floats(7, 5000)
    packed = struct.pack(f"<{len(values)}f", *values)
    assert list(struct.unpack(f"<{len(values)}f", packed)) == values
    assert packed == seeded_bytes("float32", 5000, 7)
    assert min(values) >= -1.0
    assert max(values) < 1.0
    assert min(values) < -0.99
    assert max(values) > 0.99


def test_no_elements_are_no_bytes() -> None:
    assert seeded_bytes("int8", 0, 1) == b""


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_of_more_than_32_bits_is_refused(seed: int) -> None:
    with pytest.raises(UsageError, match="does not fit 32 bits"):
        seeded_bytes("int8", 1, seed)


def test_a_type_without_a_definition_is_refused() -> None:
    with pytest.raises(UsageError, match="'float16' cannot be filled from a seed"):
        seeded_bytes("float16", 1, 1)
