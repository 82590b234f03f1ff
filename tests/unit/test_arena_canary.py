from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.sketch import Sketch
from harness.arena.canary import canary_sketch, identity_of, printed_lines, read_sighting
from harness.arena.image import Region
from harness.arena.pool import find_pool
from harness.errors import UsageError
from harness.runner.protocol import encode_record

SKETCH = """
static uint8_t method_pool[40 * 1024];
void setup() {
  Serial.begin(115200);
}
void loop() { delay(1000); }
"""
ID = "0011223344556677"
TAIL = {
    "pool": 1000, "bytes": 65536, "tail": 35376, "foreign": 0, "at": 0, "changed": 2,
    "first": 4000, "last": 4008,
}  # fmt: skip
REACH = {
    "stack": 9, "low": 10, "high": 20, "stacked": 100, "unused": 90, "heaped": 50, "spare": 40,
}  # fmt: skip


def sketch(text: str = SKETCH) -> Sketch:
    return Sketch("S", Path("S"), {"S.ino": text.encode(), "model.h": b"//"})


def made(source: Sketch, size_bytes: int = 65536, used_bytes: int = 30150) -> Sketch:
    return canary_sketch(source, find_pool(source), size_bytes=size_bytes, used_bytes=used_bytes)


def record(verb: str, fields: dict[str, int], nonce: str = ID) -> str:
    return encode_record(nonce, 0, verb, fields).decode()


def test_the_example_is_hooked_and_named_apart() -> None:
    variant = made(sketch())
    assert variant.name == "SCanary"
    text = variant.files["SCanary.ino"].decode()
    assert "S.ino" not in variant.files
    assert "uint8_t method_pool[65536];" in text
    assert "void setup() {\n  hil_canary_begin(method_pool, sizeof(method_pool));" in text
    assert "void loop() {\n  hil_canary_end(); delay(1000);" in text
    assert text.index('#include "hil_canary.h"') < text.index("hil_canary_begin")
    assert {"hil_canary.cpp", "record.cpp", "checksum.cpp", "model.h"} <= set(variant.files)
    assert b"HIL_CANARY_USED 30160u" in variant.files["hil_canary_id.h"]


def test_every_variant_signs_with_another_identity() -> None:
    identities = {identity_of(made(sketch(), size)) for size in (40960, 65536, 65537)}
    identities.add(identity_of(made(sketch(SKETCH + "// edited\n"))))
    assert len(identities) == 4


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("void loop()", "void loops()", "loop\\(\\) occurs 0 times"),
        ("void setup()", "void setup_()", "setup\\(\\) occurs 0 times"),
        ("void loop() {", "void loop() {}\nvoid loop() {", "loop\\(\\) occurs 2 times"),
    ],
)
def test_a_sketch_that_cannot_be_hooked_is_refused(old: str, new: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        made(sketch(SKETCH.replace(old, new)))


def test_both_records_are_read() -> None:
    text = f"=== DONE ===\r\n{record('canary', TAIL)}{record('reach', REACH)}"
    seen = read_sighting(text, ID)
    assert seen is not None
    assert (seen.pool, seen.changed_bytes, seen.changed) == (
        Region(1000, 66536), 2, Region(4000, 4008),
    )  # fmt: skip
    assert (seen.stack, seen.heap) == (9, Region(10, 20))
    assert (seen.stack_bytes, seen.stack_unused_bytes) == (100, 90)
    assert (seen.heap_bytes, seen.heap_unused_bytes) == (50, 40)


GOOD = record("canary", TAIL) + record("reach", REACH)


@pytest.mark.parametrize(
    "text",
    [
        "",
        record("canary", TAIL),
        record("reach", REACH),
        record("canary", TAIL, "another build...") + record("reach", REACH),
        GOOD.replace("35376", "35377"),
        GOOD.replace('"stack":9', '"stack":8'),
        record("canary", {**TAIL, "tail": "many"}) + record("reach", REACH),  # type: ignore[dict-item]
        record("canary", {"pool": 1}) + record("reach", REACH),
        record("canary", TAIL)[:100] + "\n" + record("reach", REACH),
        "@hil [1]*0000\n@hil \x00\n" + record("reach", REACH),
    ],
)
def test_a_record_that_is_damaged_or_foreign_is_not_believed(text: str) -> None:
    assert read_sighting(text, ID) is None


def test_damage_beside_good_records_does_no_harm() -> None:
    assert read_sighting(f"@hil @hil {{}}*FFFF\nx{GOOD}\x00\ufffd", ID) is not None


def test_what_the_example_printed_is_told_from_what_the_bench_had_it_print() -> None:
    text = f"ET| E [x] y\r\n\r\n>>> CORRECT!\r\n=== DONE ===\r\n{GOOD}"
    assert printed_lines(text) == (">>> CORRECT!", "=== DONE ===")
