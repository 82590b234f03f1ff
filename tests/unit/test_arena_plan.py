from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.sketch import Sketch
from harness.arena.plan import LARGEST_BYTES, SizeLabel, make_plan, parse_sizes
from harness.arena.pool import find_pool, with_pool
from harness.boards.board import ArenaBand, Standing, find_board
from harness.errors import UsageError

SKETCH = """
// alignas(16) static uint8_t method_pool[8 * 1024]
alignas(16) static uint8_t method_pool[40 * 1024];
static uint8_t scratch[16];
void setup() {}
void loop() {}
"""


def sketch(text: str) -> Sketch:
    return Sketch("S", Path("S"), {"S.ino": text.encode()})


def band(**changed: object) -> ArenaBand:
    values: dict[str, object] = {
        "sketch": "S",
        "fails_bytes": (28672,),
        "works_bytes": (40960, 49152),
        "shipped_bytes": 40960,
        "untested_bytes": (65536,),
        "standing": Standing.MEASURED,
        "source": "somebody",
        **changed,
    }
    return ArenaBand(**values)  # type: ignore[arg-type]  # the keys are those of the class


def test_sizes_are_read_in_bytes_and_in_kib() -> None:
    assert parse_sizes("40K, 28k,29494,1KiB,28672B") == (1024, 28672, 29494, 40960)


@pytest.mark.parametrize(
    "text",
    [
        "", ",", "28K,", "x", "-1", "28 K", "1e5", "0", "0K", "4.5K", "28M", "0x10", "9" * 30,
        f"{LARGEST_BYTES + 1}", "28K;40K", "28K\n", "\x1b[2J",
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused_by_its_own_words(text: str) -> None:
    if text == "28K\n":
        assert parse_sizes(text) == (28672,)
        return
    with pytest.raises(UsageError) as caught:
        parse_sizes(text)
    assert "arena" in caught.value.message
    assert "\x1b" not in caught.value.message


def test_too_many_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="33 arena sizes"):
        parse_sizes(",".join(f"{each + 1}K" for each in range(33)))


def test_the_data_labels_every_size() -> None:
    plan = make_plan(band(), shipped_bytes=40960)
    assert [(each.size_bytes, each.label, each.works) for each in plan.sizes] == [
        (28672, SizeLabel.FAILS, False),
        (40960, SizeLabel.SHIPPED, True),
        (49152, SizeLabel.WORKS, True),
        (65536, SizeLabel.UNTESTED, None),
    ]
    assert not plan.shipped_differs


def test_a_sketch_that_ships_another_size_than_the_data_knows_is_tried_with_both() -> None:
    plan = make_plan(find_board("unoq").core_version("0.55.2").arena("KeywordSpotting"),
                     shipped_bytes=40960)  # fmt: skip
    assert plan.shipped_differs
    assert plan.standing is Standing.REPORTED
    labels = {each.size_bytes: (each.label, each.works) for each in plan.sizes}
    assert labels == {
        28672: (SizeLabel.SHIPPED, True),
        40960: (SizeLabel.OWN, None),
        65536: (SizeLabel.UNTESTED, None),
    }


def test_asked_sizes_replace_those_of_the_data_and_keep_their_labels() -> None:
    plan = make_plan(band(), shipped_bytes=40960, asked=(28672, 30000))
    assert [(each.size_bytes, each.label) for each in plan.sizes] == [
        (28672, SizeLabel.FAILS),
        (30000, SizeLabel.ASKED),
    ]


def test_without_data_the_shipped_size_is_tried_and_nothing_expected() -> None:
    plan = make_plan(None, shipped_bytes=8192)
    assert [(each.size_bytes, each.works) for each in plan.sizes] == [(8192, None)]
    assert plan.standing is None


def test_data_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(UsageError, match="40960 B that it works and that it fails"):
        make_plan(band(fails_bytes=(40960,)), shipped_bytes=40960)


def test_the_pool_is_found_and_replaced() -> None:
    source = sketch(SKETCH)
    pool = find_pool(source)
    assert (pool.name, pool.size_bytes) == ("method_pool", 40960)
    variant = with_pool(source, pool, 65536)
    text = variant.files["S.ino"].decode()
    assert "static uint8_t method_pool[65536];" in text
    assert "// alignas(16) static uint8_t method_pool[8 * 1024]\n" in text
    assert with_pool(source, pool, 40960) is source


@pytest.mark.parametrize(
    "text",
    [
        "void setup() {}",
        "static uint8_t scratch[16];",
        "static uint8_t method_pool[SIZE];",
        "static uint8_t pool_a[16]; static uint8_t pool_b[16];",
    ],
)
def test_a_sketch_without_one_pool_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"has \d arrays that could be its arena, not one"):
        find_pool(sketch(text))
