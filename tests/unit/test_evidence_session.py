"""The runner's conversation recorded through a pty and played back: retries, damage, resets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import DeviceError, DutFailure, HilError
from harness.evidence.player import CannotReplay, Player
from harness.evidence.recording import read_recording
from harness.evidence.replay_session import ReplaySession
from harness.runner import link as runner_link
from harness.runner.client import Runner
from harness.serial.port import open_serial_port
from harness.serial.session import Session
from harness.serial.session_errors import BoardCrashed, BoardSilent, ExpectTimeout, StreamEnded
from harness.serial.transcript import open_transcript
from harness.serial.witness import Crash
from tests.unit.fake_runner import NONCE, FakeRunner, running
from tests.unit.scripted_stream import ScriptedStream
from tests.unit.test_runner import ONE_TWO_THREE, TWO_THREE_FOUR

Talk = Callable[[Session], object]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_link, "FIRST_RETRY_S", 0.1)
    monkeypatch.setattr(runner_link, "GREETING_RETRY_S", 0.05)
    monkeypatch.setattr(runner_link, "MAX_SENDS", 4)


def compute(session: Session) -> tuple[bytes, int]:
    runner = Runner(session, NONCE)
    runner.hello(5)
    runner.load(1000)
    runner.set_input(0, ONE_TWO_THREE)
    runner.run()
    return runner.output(), runner.link.retransmissions


def replayed(folder: Path, talk: Talk) -> object:
    player = Player(read_recording(folder, whole=True))
    player.bound(0, None)
    return outcome(talk, ReplaySession(player))


def outcome(talk: Talk, session: Session) -> object:
    """What the talk came to; an error by its kind and words."""
    try:
        return talk(session)
    except CannotReplay:
        raise
    except HilError as error:
        return type(error), error.message


def recorded(fake: FakeRunner, folder: Path, talk: Talk) -> object:
    with running(fake):
        stream = open_serial_port(fake.port)
        with Session(stream, open_transcript(folder)) as session:
            result = outcome(talk, session)
            session.mark("case_end")
            return result


def test_a_whole_conversation_repeats(tmp_path: Path) -> None:
    assert recorded(FakeRunner(), tmp_path, compute) == (TWO_THREE_FOUR, 0)
    assert replayed(tmp_path, compute) == (TWO_THREE_FOUR, 0)


def test_lost_commands_are_sent_again_as_often_as_then(tmp_path: Path) -> None:
    fake = FakeRunner()
    fake.lose_commands = 2
    first = recorded(fake, tmp_path, compute)
    assert first == (TWO_THREE_FOUR, 2)
    assert replayed(tmp_path, compute) == first


def _tear(line: bytes, number: int) -> list[bytes]:
    return [line[:-8] + b"\n"] if number == 9 else [line]


def _double(line: bytes, number: int) -> list[bytes]:
    return [line, line] if number == 9 else [line]


@pytest.mark.parametrize("damage", [_tear, _double])
def test_damage_is_seen_again(tmp_path: Path, damage: Callable[[bytes, int], list[bytes]]) -> None:
    first = recorded(FakeRunner(filter_reply=damage), tmp_path, compute)
    assert isinstance(first, tuple)
    assert first[0] is runner_link.StreamCorruption
    assert replayed(tmp_path, compute) == first


def test_a_reset_in_the_middle_is_seen_again(tmp_path: Path) -> None:
    fake = FakeRunner()
    fake.reset_on = "run"
    first = recorded(fake, tmp_path, compute)
    assert isinstance(first, tuple)
    assert first[0] is runner_link.RunnerCrashed
    assert replayed(tmp_path, compute) == first


def test_silence_takes_no_time_in_a_replay(tmp_path: Path) -> None:
    fake = FakeRunner(nonce="another build's")
    first = recorded(fake, tmp_path, lambda session: Runner(session, NONCE).hello(0.5))
    assert isinstance(first, tuple)
    assert first[0] is runner_link.StaleFirmware
    assert replayed(tmp_path, lambda session: Runner(session, NONCE).hello(0.5)) == first


def test_a_record_edited_in_the_recording_is_damage(tmp_path: Path) -> None:
    recorded(FakeRunner(), tmp_path, compute)
    rx = tmp_path / "serial.rx.bin"
    data = rx.read_bytes()
    at = data.index(b'"v":"run"')
    rx.write_bytes(data[:at] + b'"v":"ruN"' + data[at + 9 :])
    found = replayed(tmp_path, compute)
    assert isinstance(found, tuple)
    assert found[0] is runner_link.StreamCorruption
    assert "its checksum is wrong" in found[1]


def test_another_command_than_then_cannot_be_replayed(tmp_path: Path) -> None:
    recorded(FakeRunner(), tmp_path, compute)

    def other(session: Session) -> object:
        runner = Runner(session, NONCE)
        runner.hello(5)
        return runner.load(2000)

    with pytest.raises(CannotReplay, match=r"the case sends .*load 2000.* sent .*load 1000"):
        replayed(tmp_path, other)


class Watcher:
    """Sees the crash of a board that went silent."""

    def __init__(self, crash: Crash | None, dead: HilError | None = None) -> None:
        self._crash, self._dead = crash, dead

    def require_alive(self) -> None:
        if self._dead is not None:
            raise self._dead

    def crash(self) -> Crash | None:
        return self._crash

    def account(self) -> tuple[str, ...]:
        return ("the Linux side is up",)


def expecting(session: Session) -> object:
    return session.expect("more", timeout_s=0.3)


@pytest.mark.parametrize(
    ("said", "watcher", "kind"),
    [
        (b"hello\n", Watcher(None), ExpectTimeout),
        (b"", Watcher(None), BoardSilent),
        (b"hello\n", Watcher(Crash("data bus error at pc 0x10", ("CFSR=1",))), BoardCrashed),
        (b"hello\n", Watcher(None, DeviceError("the chip died", remedy="reset")), DeviceError),
        (b"hello\n", Watcher(None, DutFailure("the sketch died", remedy="fix it")), DutFailure),
    ],
)
def test_what_was_seen_from_behind_is_told_again(
    tmp_path: Path, said: bytes, watcher: Watcher, kind: type[HilError]
) -> None:
    stream = ScriptedStream()
    with Session(stream, open_transcript(tmp_path), witness=watcher) as session:
        stream.say(said)
        first = outcome(expecting, session)
        session.mark("case_end")
    assert isinstance(first, tuple)
    assert first[0] is kind
    assert replayed(tmp_path, expecting) == first


def test_a_port_that_vanished_vanishes_again(tmp_path: Path) -> None:
    stream = ScriptedStream()
    with Session(stream, open_transcript(tmp_path)) as session:
        stream.say(b"last words")
        stream.end()
        first = outcome(expecting, session)
        session.mark("case_end")
    assert isinstance(first, tuple)
    assert first[0] is StreamEnded
    assert replayed(tmp_path, expecting) == first


class Refusing(ScriptedStream):
    """Takes no byte."""

    def write(self, data: bytes) -> None:
        raise DeviceError(f"took none of {len(data)} bytes", remedy="reset it")


def writing(session: Session) -> None:
    session.write(b"words")


def test_a_port_that_takes_no_byte_takes_none_again(tmp_path: Path) -> None:
    with Session(Refusing(), open_transcript(tmp_path)) as session:
        first = outcome(writing, session)
        session.mark("case_end")
    assert first == (DeviceError, "took none of 5 bytes")
    assert replayed(tmp_path, writing) == first


def test_a_transcript_that_is_begun_again_goes_on(tmp_path: Path) -> None:
    for word in (b"first\n", b"second\n"):
        stream = ScriptedStream()
        with Session(stream, open_transcript(tmp_path)) as session:
            stream.say(word)
            session.expect_exact(word, timeout_s=5)
            assert session.bytes_since_boot == len(word)
            entries = session.transcript.entries
    recording = read_recording(tmp_path, whole=True)
    pieces = [recording.data(each) for each in recording.entries if each.way == "rx"]
    assert b"".join(pieces) == b"first\nsecond\n"
    assert entries == len((tmp_path / "serial.jsonl").read_text().splitlines())
    assert [each.at_s for each in recording.entries] == sorted(
        each.at_s for each in recording.entries
    )
