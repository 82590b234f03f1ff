from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from harness.clock import monotonic_s
from harness.errors import BenchError, DeviceError, DutFailure, HilError, UsageError
from harness.serial import session as module
from harness.serial.session import Session
from harness.serial.session_errors import (
    BoardCrashed,
    BoardSilent,
    ExpectTimeout,
    StreamEnded,
    repeated_banner,
)
from harness.serial.transcript import open_transcript
from harness.serial.witness import Crash
from tests.unit.scripted_stream import ScriptedStream


@pytest.fixture
def stream() -> ScriptedStream:
    return ScriptedStream()


@pytest.fixture
def dut(stream: ScriptedStream) -> Iterator[Session]:
    with Session(stream, open_transcript(None)) as session:
        yield session


def test_expect_gives_match_before_and_after(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"boot\nvalue=42;rest")
    assert dut.expect(r"value=(\d+);", timeout_s=5) == 0
    assert isinstance(dut.match, re.Match)
    assert dut.match.group(1) == b"42"
    assert dut.before == b"boot\n"
    assert dut.after == b"value=42;"
    assert dut.expect("rest", timeout_s=5) == 0
    assert dut.before == b""


def test_expect_consumes_nothing(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"one two three")
    dut.expect("two", timeout_s=5)
    assert dut.transcript.received() == b"one two three"
    assert dut.cursor == 7


@pytest.mark.parametrize(
    "pattern", ["b+", b"b+", re.compile("B+", re.IGNORECASE), re.compile(b"b+")]
)
def test_every_kind_of_pattern_is_a_regular_expression(
    dut: Session, stream: ScriptedStream, pattern: str
) -> None:
    stream.say(b"aabbcc")
    dut.expect(pattern, timeout_s=5)
    assert dut.after == b"bb"


def test_the_earliest_match_wins_and_then_the_first_in_the_list(
    dut: Session, stream: ScriptedStream
) -> None:
    stream.say(b"error then ok\n")
    assert dut.expect(["ok", "error"], timeout_s=5) == 1
    assert dut.expect(["o", "ok"], timeout_s=5) == 0


def test_expect_exact_takes_text_as_it_is(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"axb a.b")
    assert dut.expect_exact(["nothing", "a.b"], timeout_s=5) == 1
    assert dut.before == b"axb "


def test_a_match_may_come_in_pieces(dut: Session, stream: ScriptedStream) -> None:
    for each in b"hello":
        stream.say(bytes([each]))
    dut.expect("hello", timeout_s=5)
    assert dut.after == b"hello"


def test_timeout_and_eof_in_a_list_are_answers(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"abc")
    assert dut.expect(["never", pexpect.TIMEOUT], timeout_s=0.05) == 1
    assert dut.match is pexpect.TIMEOUT
    assert dut.before == b"abc"
    assert dut.cursor == 0
    stream.end()
    assert dut.expect([pexpect.EOF, "never"], timeout_s=5) == 0
    assert dut.after is pexpect.EOF
    assert dut.before == b"abc"
    assert dut.cursor == 3
    assert dut.expect(pexpect.EOF, timeout_s=5) == 0


def test_a_timeout_shows_the_whole_conversation_and_the_crash_tail(
    dut: Session, stream: ScriptedStream
) -> None:
    stream.say(b"boot\n")
    dut.expect("boot", timeout_s=5)
    dut.write_line("go")
    stream.say(b"loading\nHARD FAU")
    with pytest.raises(ExpectTimeout, match=r"did not print 'ready' within 0\.1 s") as caught:
        dut.expect("ready", timeout_s=0.1)
    assert caught.value.evidence == ("boot", "-> go", "loading", "HARD FAU [no newline]")
    assert isinstance(caught.value, DutFailure)
    assert isinstance(caught.value, pexpect.TIMEOUT)
    assert "assertion" in caught.value.remedy


def test_a_board_that_never_spoke_is_a_fault(dut: Session) -> None:
    with pytest.raises(BoardSilent, match="sent nothing") as caught:
        dut.expect("ready", timeout_s=0.05)
    assert isinstance(caught.value, DeviceError)
    assert "prints to this port" in caught.value.remedy


def test_silence_is_judged_since_the_last_flash(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"first firmware\n")
    dut.expect("firmware", timeout_s=5)
    dut.skip_received()
    with pytest.raises(BoardSilent, match="nothing since it was flashed or reset") as caught:
        dut.expect("second", timeout_s=0.05)
    assert "first firmware" in caught.value.evidence
    stream.say(b"x")
    dut.expect("x", timeout_s=5)
    with pytest.raises(ExpectTimeout):
        dut.expect("second", timeout_s=0.05)


def test_a_banner_that_comes_again_and_again_is_said(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"boot v1\r\nloading\r\n" * 3)
    with pytest.raises(ExpectTimeout, match="first line, 'boot v1', came 3 times") as caught:
        dut.expect("ready", timeout_s=0.2)
    assert "reset in a loop" in caught.value.cause


def test_what_a_reset_cut_off_before_the_banner_hides_no_loop() -> None:
    assert repeated_banner(b"ding\r\n" + b"boot v1\r\nloading\r\n" * 3) == ("boot v1", 3)


@pytest.mark.parametrize("said", [b"", b"tick\n" * 9, b"a\nb\na\nb\n", b"boot\nx\ny\n"])
def test_a_sketch_that_counts_does_not_reset(said: bytes) -> None:
    assert repeated_banner(said) is None


class Seer:
    """A witness that says what a test has it say."""

    def __init__(self, error: HilError | None = None, crash: Crash | None = None) -> None:
        self.error = error
        self.seen = crash
        self.asked = 0

    def require_alive(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    def crash(self) -> Crash | None:
        return self.seen

    def account(self) -> tuple[str, ...]:
        return ("the core is in thread mode, in delay",)


def test_a_board_that_died_ends_the_wait_at_once(stream: ScriptedStream) -> None:
    seer = Seer(DeviceError("the chip died", remedy="reset it"))
    began_s = monotonic_s()
    with Session(stream, open_transcript(None), witness=seer) as dut:
        stream.say(b"last words")
        with pytest.raises(DeviceError, match="the chip died") as caught:
            dut.expect("more", timeout_s=60)
        with pytest.raises(DeviceError, match="the chip died"):
            dut.wait_received(10, timeout_s=60)
    assert monotonic_s() - began_s < 20
    assert "last words [no newline]" in caught.value.evidence


def test_what_a_dead_board_still_said_is_found(stream: ScriptedStream) -> None:
    class Late(Seer):
        def require_alive(self) -> None:
            stream.say(b"the answer\n")
            super().require_alive()

    seer = Late(DeviceError("the chip died", remedy="reset it"))
    with Session(stream, open_transcript(None), witness=seer) as dut:
        dut.expect("answer", timeout_s=60)
    assert seer.asked == 1


def test_a_living_board_is_asked_rarely_and_times_out(stream: ScriptedStream) -> None:
    seer = Seer()
    with (
        Session(stream, open_transcript(None), witness=seer) as dut,
        pytest.raises(BoardSilent) as caught,
    ):
        dut.expect("more", timeout_s=0.1)
    assert seer.asked == 1
    assert caught.value.evidence[-1] == "the core is in thread mode, in delay"


def test_what_a_witness_tells_of_a_board_that_stopped_is_evidence(stream: ScriptedStream) -> None:
    with Session(stream, open_transcript(None), witness=Seer()) as dut:
        stream.say(b"halfway\n")
        with pytest.raises(ExpectTimeout) as caught:
            dut.expect("end", timeout_s=0.1)
    assert caught.value.evidence == ("halfway", "the core is in thread mode, in delay")


def test_a_core_in_a_fault_handler_is_a_crash_and_not_silence(stream: ScriptedStream) -> None:
    seer = Seer(crash=Crash("precise data bus error at pc 0x10000100", ("CFSR=0x00008200",)))
    with (
        Session(stream, open_transcript(None), witness=seer) as dut,
        pytest.raises(BoardCrashed, match="crashed: precise data bus error at pc") as caught,
    ):
        dut.expect("more", timeout_s=0.1)
    assert isinstance(caught.value, DutFailure)
    assert "CFSR=0x00008200" in caught.value.evidence


def test_the_idle_limit_is_separate_from_the_total(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"start\n")
    began_s = monotonic_s()
    with pytest.raises(ExpectTimeout, match=r"nothing at all came for 0\.1 s"):
        dut.expect("end", timeout_s=30, idle_s=0.1)
    assert monotonic_s() - began_s < 5


def test_output_without_end_does_not_stretch_the_total(
    dut: Session, stream: ScriptedStream
) -> None:
    stop = threading.Event()

    def chatter() -> None:
        while not stop.is_set():
            if stream.waiting < 100:
                stream.say(b"busy\n")

    thread = threading.Thread(target=chatter)
    thread.start()
    began_s = monotonic_s()
    try:
        with pytest.raises(ExpectTimeout, match=r"within 0\.2 s"):
            dut.expect("done", timeout_s=0.2, idle_s=10)
    finally:
        stop.set()
        thread.join()
    assert monotonic_s() - began_s < 5


def test_what_came_before_the_end_is_still_found(dut: Session, stream: ScriptedStream) -> None:
    stream.say(b"last words")
    stream.end()
    dut.expect("last", timeout_s=5)
    with pytest.raises(StreamEnded, match="vanished: 'more' was expected") as caught:
        dut.expect("more", timeout_s=5)
    assert isinstance(caught.value, pexpect.EOF)
    assert caught.value.evidence == ("last words [no newline]",)


def test_writing_to_a_port_that_vanished_shows_the_conversation(
    dut: Session, stream: ScriptedStream
) -> None:
    stream.say(b"hello\n")
    dut.expect("hello", timeout_s=5)
    stream.closed = True
    with pytest.raises(StreamEnded) as caught:
        dut.write_line("x")
    assert "hello" in caught.value.evidence


def test_a_reader_that_breaks_is_said_and_not_silence(
    dut: Session, stream: ScriptedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bytes:
        raise RuntimeError("boom")

    monkeypatch.setattr(stream, "read", broken)
    with pytest.raises(StreamEnded, match="failed inside the bench: RuntimeError"):
        dut.expect("x", timeout_s=5)


def test_a_full_disk_reaches_the_caller_once(tmp_path: Path) -> None:
    (tmp_path / "serial.rx.bin").symlink_to("/dev/full")
    stream = ScriptedStream()
    with Session(stream, open_transcript(tmp_path)) as dut:
        stream.say(b"hello")
        assert dut.wait_received(0, 5) == b"hello"
        with pytest.raises(BenchError, match="No space left"):
            dut.expect("hello", timeout_s=5)
        assert dut.expect("hello", timeout_s=5) == 0


def test_skipped_bytes_are_not_expected_and_not_forgotten(
    dut: Session, stream: ScriptedStream
) -> None:
    stream.say(b"old ready\n")
    dut.expect("old", timeout_s=5)
    assert dut.skip_received() == b" ready\n"
    stream.say(b"new ready\n")
    dut.expect("new", timeout_s=5)
    assert dut.received_since_boot() == "new ready\n"
    assert dut.transcript.received().startswith(b"old ready\n")


def test_the_searched_stretch_is_bounded(
    dut: Session, stream: ScriptedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MATCH_SPAN_BYTES", 64)
    for _ in range(200):
        stream.say(b"x" * 100)
    stream.say(b"end")
    dut.expect("x{10}end", timeout_s=10)
    assert dut.before == b"x" * (20000 - 10)


def test_close_wakes_the_reader_at_once(stream: ScriptedStream) -> None:
    session = Session(stream, open_transcript(None))
    session.start()
    session.start()
    began_s = monotonic_s()
    session.close()
    session.close()
    assert monotonic_s() - began_s < 2


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("(", "not a regular expression"), (7, "cannot look for 7"), ([], "an empty list")],
)
def test_what_is_no_pattern_is_refused(dut: Session, pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dut.expect(pattern)
