from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness.errors import DeviceError, DutFailure, UsageError
from harness.runner import link as runner_link
from harness.runner.client import Runner
from harness.runner.info import RunnerFailure
from harness.runner.link import (
    BoardReset,
    RunnerCrashed,
    RunnerSilent,
    StaleFirmware,
    StreamCorruption,
)
from harness.runner.protocol import encode_record
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.transcript import open_transcript
from tests.unit.fake_runner import MINIMUM_ARENA_BYTES, NONCE, FakeRunner, Filter, running

ONE_TWO_THREE = struct.pack("<3f", 1, 2, 3)
TWO_THREE_FOUR = struct.pack("<3f", 2, 3, 4)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_link, "FIRST_RETRY_S", 0.1)
    monkeypatch.setattr(runner_link, "GREETING_RETRY_S", 0.05)
    monkeypatch.setattr(runner_link, "MAX_SENDS", 4)


@contextmanager
def talking_to(fake: FakeRunner, *, damage_limit: int = 0) -> Iterator[Runner]:
    with running(fake):
        stream = open_serial_port(fake.port)
        with Session(stream, open_transcript(None)) as session:
            yield Runner(session, NONCE, damage_limit=damage_limit)


def greeted(session: Session) -> Runner:
    runner = Runner(session, NONCE)
    runner.hello(5)
    return runner


def compute(runner: Runner) -> bytes:
    runner.load(1000)
    runner.set_input(0, ONE_TWO_THREE)
    runner.run()
    return runner.output()


def from_reply(first: int, change: Callable[[bytes], list[bytes]]) -> Filter:
    """Change reply number ``first`` only."""
    return lambda line, number: change(line) if number == first else [line]


def test_the_whole_conversation() -> None:
    with talking_to(FakeRunner()) as runner:
        info = runner.hello(5)
        assert info.nonce == NONCE
        assert info.model_digest == "ab" * 32
        assert [each.sizes for each in info.inputs] == [(3,)]
        assert compute(runner) == TWO_THREE_FOUR
        result = runner.run(3)
        assert (result.runs, result.instructions, result.total) == (3, 100, 300)
        assert runner.high_water_bytes() == MINIMUM_ARENA_BYTES
        assert runner.link.retransmissions == 0


def test_a_seeded_input_is_the_same_on_both_sides() -> None:
    with talking_to(FakeRunner()) as runner:
        runner.hello(5)
        runner.load(1000)
        runner.seed_input(0, 7)


def test_an_input_that_differs_on_the_board_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with talking_to(FakeRunner()) as runner:
        runner.hello(5)
        runner.load(1000)
        monkeypatch.setattr("harness.runner.client.seeded_bytes", lambda *_: b"other")
        with pytest.raises(StreamCorruption, match="CRC-32"):
            runner.seed_input(0, 7)


def test_a_failure_carries_call_code_and_the_runtimes_lines() -> None:
    with talking_to(FakeRunner()) as runner:
        runner.hello(5)
        with pytest.raises(RunnerFailure, match="load_method failed with 0x21") as caught:
            runner.load(100)
        failure = caught.value
        assert (failure.call, failure.code, failure.used_bytes) == ("load_method", 0x21, 96)
        assert failure.detail == "no memory, 4B available"
        assert failure.evidence == ("ET| E [ET:memory_allocator.h:105] no memory, 4B available",)
        assert runner.load(MINIMUM_ARENA_BYTES).high_water_bytes == MINIMUM_ARENA_BYTES


def test_lost_replies_are_asked_for_again_and_run_once() -> None:
    lost = {3, 9, 10, 12}
    fake = FakeRunner(filter_reply=lambda line, number: [] if number in lost else [line])
    with talking_to(fake) as runner:
        runner.hello(5)
        assert compute(runner) == TWO_THREE_FOUR
        assert runner.link.retransmissions == len(lost)
    assert fake.executed.count("run") == 1
    assert fake.executed.count("put") == 1


def test_lost_commands_are_sent_again() -> None:
    fake = FakeRunner()
    with talking_to(fake) as runner:
        runner.hello(5)
        fake.lose_commands = 2
        assert compute(runner) == TWO_THREE_FOUR
        assert runner.link.retransmissions == 2


def test_damaged_commands_are_refused_by_the_board_and_sent_again_at_once() -> None:
    fake = FakeRunner()
    with talking_to(fake) as runner:
        runner.hello(5)
        fake.damage_commands = 2
        assert compute(runner) == TWO_THREE_FOUR
        assert runner.link.retransmissions == 2


def test_a_late_reply_to_a_retransmission_is_not_taken_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The board is slow: its first reply comes after the command was sent again, and then twice.
    monkeypatch.setattr(runner_link, "FIRST_RETRY_S", 0.01)
    slow = FakeRunner(filter_reply=lambda line, number: [line, line] if number % 2 == 0 else [])
    with talking_to(slow) as runner:
        runner.hello(5)
        runner.load(1000)
        for value in range(5):
            runner.set_input(0, struct.pack("<3f", value, value, value))
            runner.run()
            assert struct.unpack("<3f", runner.output()) == (value + 1,) * 3
        assert runner.link.retransmissions > 20


# Replies 1 to 6 belong to hello(); the seventh answers load.
@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda line: [line, line], "more often than it was asked for", id="doubled"),
        pytest.param(lambda line: [line[:30], b"\n"], "arrived torn", id="torn"),
        pytest.param(
            lambda line: [line.replace(b"used", b"sued")], "arrived corrupt", id="corrupt"
        ),
        pytest.param(lambda line: [line[:20], line], "arrived interleaved", id="interleaved"),
        pytest.param(lambda line: [line[:-1], b"ET| x\n"], "arrived interleaved", id="log behind"),
        pytest.param(lambda line: [line[:9], b"x" * 900, line[9:]], "oversize", id="oversize"),
        pytest.param(
            lambda _: [encode_record(NONCE, 2**24 + 999, "load", {"ok": 1})],
            "that nothing asked for",
            id="out of order",
        ),
        pytest.param(lambda _: [b"@hil 5 load 1000*6F95\n"], "arrived", id="echo"),
    ],
)
def test_a_damaged_stream_is_a_fault_and_never_an_answer(
    change: Callable[[bytes], list[bytes]], message: str
) -> None:
    with talking_to(FakeRunner(filter_reply=from_reply(7, change))) as runner:
        runner.hello(5)
        with pytest.raises(StreamCorruption, match=message) as caught:
            compute(runner)
        assert isinstance(caught.value, DeviceError)
        assert caught.value.evidence


def test_damage_within_the_limit_is_made_good_and_counted() -> None:
    fake = FakeRunner(filter_reply=from_reply(7, lambda line: [line[:30], b"\n"]))
    with talking_to(fake, damage_limit=1) as runner:
        runner.hello(5)
        assert compute(runner) == TWO_THREE_FOUR
        assert [each.kind for each in runner.link.damage] == ["torn"]


def test_a_right_record_with_a_wrong_answer_to_another_verb_is_a_fault() -> None:
    def other(line: bytes) -> list[bytes]:
        sequence = int(line.split(b'"s":')[1].split(b",")[0])
        return [encode_record(NONCE, sequence, "run", {"ok": 1})]

    with talking_to(FakeRunner(filter_reply=from_reply(7, other))) as runner:
        runner.hello(5)
        with pytest.raises(StreamCorruption, match="answers 'run', and 'load' was asked"):
            runner.load(1000)


def test_records_of_an_earlier_firmware_are_not_believed() -> None:
    old = FakeRunner(nonce="feedfeedfeedfeed")
    with talking_to(old) as runner, pytest.raises(StaleFirmware, match="feedfeed") as caught:
        runner.hello(0.3)
    assert "upload again" in caught.value.remedy


def test_stale_lines_before_the_new_firmware_do_no_harm() -> None:
    fake = FakeRunner()
    with running(fake):
        fake.send(encode_record("feedfeedfeedfeed", 5, "run", {"ok": 1}))
        fake.send(b'@hil {"n":"feedfe')
        with Session(open_serial_port(fake.port), open_transcript(None)) as session:
            assert compute(greeted(session)) == TWO_THREE_FOUR


def test_a_silent_board_and_a_board_with_another_sketch_are_told_apart() -> None:
    fake = FakeRunner()
    fake.lose_commands = 10_000
    with talking_to(fake) as runner:
        with pytest.raises(RunnerSilent, match="it sent nothing"):
            runner.hello(0.2)
        fake.send(b"=== AddModel ===\n")
        with pytest.raises(RunnerSilent, match="bytes of other output") as caught:
            runner.hello(0.2)
        assert "=== AddModel ===" in caught.value.evidence


def test_a_reset_loop_is_named() -> None:
    fake = FakeRunner()
    fake.lose_commands = 10_000
    with talking_to(fake) as runner:
        for _ in range(3):
            fake.boot()
        with pytest.raises(BoardReset, match="resets in a loop"):
            runner.hello(5)


@pytest.mark.parametrize(
    ("verb", "kind"), [("run", RunnerCrashed), ("load", RunnerCrashed), ("put", BoardReset)]
)
def test_a_reset_in_the_middle_is_the_sketchs_only_where_it_worked(
    verb: str, kind: type[Exception]
) -> None:
    fake = FakeRunner()
    with talking_to(fake) as runner:
        runner.hello(5)
        fake.reset_on = verb
        with pytest.raises(kind, match=f"started anew during '{verb}'"):
            compute(runner)


def test_a_reset_that_said_nothing_is_noticed_by_the_next_command() -> None:
    fake = FakeRunner()
    with talking_to(fake) as runner:
        runner.hello(5)
        fake.forget()
        with pytest.raises(BoardReset, match="forgot the conversation"):
            runner.high_water_bytes()


def test_silence_while_running_is_the_sketchs() -> None:
    fake = FakeRunner()
    with talking_to(fake) as runner:
        runner.hello(5)
        runner.load(1000)
        runner.set_input(0, ONE_TWO_THREE)
        fake.filter_reply = lambda line, number: []  # noqa: ARG005
        fake.send(b"ET| F [ET:evalue.h:107] assert failed\n")
        with pytest.raises(RunnerCrashed, match=r"'run' .* last line: ET. F .*assert") as caught:
            runner.run(timeout_s=0.3)
        assert isinstance(caught.value, DutFailure)
        assert "assertion" in caught.value.remedy


def test_a_flood_before_the_reply_is_survived() -> None:
    fake = FakeRunner()
    fake.log_before_reply["load"] = [b"x" * 3000] * 20 + [b"\n"]
    with talking_to(fake) as runner:
        runner.hello(5)
        assert compute(runner) == TWO_THREE_FOUR


def test_the_callers_mistakes_are_refused_before_the_wire() -> None:
    with talking_to(FakeRunner()) as runner:
        with pytest.raises(UsageError, match="was not greeted"):
            _ = runner.info
        runner.hello(5)
        runner.load(1000)
        with pytest.raises(UsageError, match="takes 12 bytes and was given 11"):
            runner.set_input(0, b"x" * 11)
        with pytest.raises(UsageError, match="no input 1"):
            runner.set_input(1, b"")
