from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.runner.protocol import (
    MAX_LINE_BYTES,
    MalformedRecord,
    Record,
    crc16,
    decode_body,
    encode_command,
    encode_record,
)
from harness.runner.record_stream import (
    MAX_HELD_BYTES,
    MAX_RECORD_BYTES,
    Damage,
    Item,
    LogText,
    ReceivedRecord,
    RecordStream,
)

ONE = encode_record("aa", 1, "load", {"ok": 1})
TWO = encode_record("aa", 2, "run", {"ok": 1})


def decode(*pieces: bytes) -> list[Item]:
    stream = RecordStream()
    items = [item for piece in pieces for item in stream.feed(piece)]
    return items + stream.finish()


def kinds(items: list[Item]) -> list[str]:
    named = {ReceivedRecord: "record", LogText: "log"}
    return [item.kind if isinstance(item, Damage) else named[type(item)] for item in items]


def records(items: list[Item]) -> list[Record]:
    return [item.record for item in items if isinstance(item, ReceivedRecord)]


def test_the_checksum_is_ccitt_false() -> None:
    assert crc16(b"123456789") == 0x29B1
    assert crc16(b"") == 0xFFFF


def test_a_command_line_is_exact() -> None:
    assert encode_command(7, "load", 40960) == b"@hil 7 load 40960*" + b"%04X\n" % crc16(
        b"7 load 40960"
    )


@pytest.mark.parametrize(
    ("sequence", "words"),
    [
        (0, ("load",)),
        (2**32, ("load",)),
        (1, ("lo ad",)),
        (1, ("put", "a*b")),
        (1, ("put", "")),
        (1, ("put", "x" * MAX_LINE_BYTES)),
        (1, ("put", "a\nb")),
    ],
)
def test_a_command_that_breaks_the_limits_is_refused(sequence: int, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="does not fit the runner protocol"):
        encode_command(sequence, *words)


def test_a_record_round_trips_with_its_fields() -> None:
    (record,) = records(decode(encode_record("n", 3, "tensor", {"sizes": [1, 2], "t": "a@b*c"})))
    assert (record.nonce, record.sequence, record.verb) == ("n", 3, "tensor")
    assert record.integers("sizes") == (1, 2)
    assert record.text("t") == "a@b*c"
    assert b"@" not in encode_record("n", 3, "x", {"t": "@hil "})[1:]


@pytest.mark.parametrize(
    "body", [b"[1]", b"{}", b'{"n":"a","s":"1","v":"x"}', b'{"n":"a","n":"b","s":1,"v":"x"}', b"{"]
)
def test_what_is_no_record_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_body(body)


@pytest.mark.parametrize("value", [True, "1", None, 1.5])
def test_a_number_that_is_none_is_malformed(value: object) -> None:
    with pytest.raises(MalformedRecord, match="not an integer"):
        Record("a", 1, "x", {"k": value}).integer("k")


def test_records_and_log_are_told_apart_in_order() -> None:
    items = decode(b"hello\r\n" + ONE + b"ET| x\n" + TWO)
    assert kinds(items) == ["log", "record", "log", "record"]
    assert items[0] == LogText(b"hello", 0, ended=True)


def test_every_split_into_pieces_gives_the_same() -> None:
    data = b"log\n" + ONE + b"@hi @hil\n" + TWO + b"@hil {torn\ntail"
    whole = decode(data)
    for cut in range(len(data)):
        assert decode(data[:cut], data[cut:]) == whole
    assert decode(*(bytes([each]) for each in data)) == whole


def test_log_without_newline_before_a_record_does_not_hide_it() -> None:
    assert kinds(decode(b"abc" + ONE)) == ["log", "record"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(ONE[:20] + b"\n" + TWO, ["torn", "record"], id="cut by a newline"),
        pytest.param(ONE[:-6] + b"\n", ["torn"], id="checksum lost"),
        pytest.param(ONE[:-3], ["torn"], id="the stream stops"),
        pytest.param(ONE.replace(b"load", b"lead"), ["corrupt"], id="a byte changed"),
        pytest.param(ONE.replace(b"load", b"lod"), ["corrupt"], id="a byte dropped"),
        pytest.param(ONE[:12] + TWO, ["interleaved", "record"], id="another inside"),
        pytest.param(ONE[:-1] + TWO, ["record", "interleaved", "record"], id="newline lost"),
        pytest.param(ONE[:-1] + b"ET| x\n", ["record", "interleaved"], id="log behind"),
        pytest.param(ONE[:12] + b"ET| x\n" + ONE[12:], ["torn", "log"], id="log inside"),
        pytest.param(b"@hil " + b"x" * 5000 + b"\n" + TWO, None, id="oversize"),
        pytest.param(encode_command(1, "load", 5), ["echo"], id="our own command"),
        pytest.param(b"@hil {1}*%04X\n" % crc16(b"{1}"), ["malformed"], id="not json"),
        pytest.param(b"\x1b[0m" + ONE[:-1] + b"\x1b[m\r\n", ["log", "record"], id="escapes"),
        pytest.param(ONE[:-1] + b"\r\n", ["record"], id="carriage return"),
        pytest.param(b"\0\0" + ONE, ["log", "record"], id="nul"),
        pytest.param(b"\xff\xfe\n" + ONE, ["log", "record"], id="bad utf-8"),
    ],
)
def test_damage_is_named_and_the_next_record_found(data: bytes, expected: list[str] | None) -> None:
    got = kinds(decode(data))
    if expected is None:
        assert got[0] == "oversize"
        assert got[-1] == "record"
        assert set(got[1:-1]) == {"log"}
    else:
        assert got == expected


def test_a_line_of_ten_megabytes_stays_in_bounded_memory() -> None:
    stream = RecordStream()
    total = 0
    for _ in range(160):
        for item in stream.feed(b"x" * 65536):
            assert isinstance(item, LogText)
            total += len(item.data)
        assert len(stream.pending) <= MAX_HELD_BYTES
    assert total + len(stream.pending) == 160 * 65536
    (record,) = records(stream.feed(ONE))
    assert record.verb == "load"


def test_a_marker_cut_by_the_bound_is_still_found() -> None:
    for filler in range(MAX_HELD_BYTES - 8, MAX_HELD_BYTES + 8):
        assert records(decode(b"x" * filler + ONE)), filler


def test_offsets_point_at_the_bytes() -> None:
    data = b"log\n" + ONE + b"abc" + TWO
    for item in decode(data):
        if isinstance(item, LogText):
            assert data[item.offset :].startswith(item.data)
        else:
            assert data[item.offset :].startswith(b"@hil ")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"@hil ", ONE, TWO, b"\n"]))))
def test_whatever_arrives_no_record_is_invented(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    items = decode(*pieces)
    for record in records(items):
        assert any(record == each for each in records(decode(ONE, TWO)))
    assert len(records(items)) <= data.count(ONE[:-1]) + data.count(TWO[:-1])


@settings(max_examples=300, deadline=None)
@given(st.integers(5, len(ONE) - 2), st.integers(1, 255))
def test_a_changed_byte_never_passes(position: int, flip: int) -> None:
    changed = bytearray(ONE)
    changed[position] ^= flip
    assert records(decode(bytes(changed))) in ([], records(decode(ONE)))
    assert kinds(decode(bytes(changed))) != ["record"]


def test_a_record_line_may_not_grow_without_end() -> None:
    stream = RecordStream()
    items: list[Item] = []
    for _ in range(MAX_RECORD_BYTES):
        items += stream.feed(b"@hil {" if not items and not stream.pending else b"x")
    items += stream.feed(b"xxxxxxxx")
    assert kinds(items) == ["oversize"]
