from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import BenchError
from harness.serial import transcript as module
from harness.serial.transcript import SHOWN_LINE_CHARS, open_transcript, printable


def test_every_byte_is_on_disk_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    kept = open_transcript(tmp_path / "run")
    kept.append("rx", b"he\xffllo")
    kept.append("tx", b"?\n")
    kept.append("rx", b" world")
    # Before close: a killed run must leave as much.
    assert (tmp_path / "run/serial.rx.bin").read_bytes() == b"he\xffllo world"
    assert (tmp_path / "run/serial.tx.bin").read_bytes() == b"?\n"
    head, *entries = map(json.loads, (tmp_path / "run/serial.jsonl").read_text().splitlines())
    assert head["transcript"] == 1
    assert [(each["direction"], each["offset"], each["bytes"]) for each in entries] == [
        ("rx", 0, 6),
        ("tx", 0, 2),
        ("rx", 6, 6),
    ]
    times = [each["at_s"] for each in entries]
    assert times == sorted(times)
    kept.close()
    kept.close()


def test_memory_holds_both_directions_with_offsets() -> None:
    kept = open_transcript(None)
    kept.append("rx", b"abc")
    kept.append("tx", b"x")
    kept.append("rx", b"def")
    assert kept.rx_length == 6
    assert kept.received(2, 5) == b"cde"
    assert [(each.direction, each.offset, each.data) for each in kept.pieces] == [
        ("rx", 0, b"abc"),
        ("tx", 0, b"x"),
        ("rx", 3, b"def"),
    ]


def test_memory_is_bounded_and_disk_is_not(tmp_path: Path) -> None:
    kept = open_transcript(tmp_path, memory_bytes=1000)
    for number in range(500):
        kept.append("rx", b"%09d\n" % number)
    assert kept.rx_length == 5000
    assert 5000 - kept.rx_start <= 1000
    assert kept.received(0) == kept.received(kept.rx_start)
    assert kept.received(4990) == b"000000499\n"
    assert sum(len(each.data) for each in kept.pieces) <= 1000
    assert (tmp_path / "serial.rx.bin").stat().st_size == 5000


def test_many_small_pieces_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PIECES", 10)
    kept = open_transcript(None)
    for _ in range(50):
        kept.append("rx", b"x")
    assert len(kept.pieces) == 10
    assert kept.received() == b"x" * 50


def test_a_full_disk_is_said_once_and_memory_goes_on(tmp_path: Path) -> None:
    (tmp_path / "serial.rx.bin").symlink_to("/dev/full")
    kept = open_transcript(tmp_path)
    with pytest.raises(BenchError, match="No space left on device") as caught:
        kept.append("rx", b"one")
    assert "free space" in caught.value.remedy
    kept.append("rx", b"two")
    assert kept.received() == b"onetwo"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match=r"transcript in .*file/run.* cannot be written"):
        open_transcript(tmp_path / "file" / "run")


def test_the_tail_marks_what_was_sent_and_an_unfinished_line() -> None:
    kept = open_transcript(None)
    kept.append("rx", b"one\r\ntwo\n")
    kept.append("tx", b"go\n")
    kept.append("rx", b"\n** BUS FA")
    kept.append("rx", b"ULT **")
    assert kept.tail() == ("one", "two", "-> go", "** BUS FAULT ** [no newline]")
    assert kept.tail(1) == ("** BUS FAULT ** [no newline]",)
    assert open_transcript(None).tail() == ()


def test_hostile_output_is_shown_as_one_safe_line() -> None:
    assert printable(b"\x1b[2Jhi\0\xff\r") == r"\x1b[2Jhi\x00\xff"
    assert "\u2028" not in printable("a\u2028b\u202e".encode())
    long = printable(b"x" * (SHOWN_LINE_CHARS + 7))
    assert long.endswith("[7 bytes more]")
    assert len(long) < SHOWN_LINE_CHARS + 20
