"""The file that makes a stand-in misbehave, and what it does to bytes and prints."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from harness.emulator.behaviour import (
    Adb,
    AdbState,
    After,
    AnotherBoard,
    Behaviour,
    Booting,
    Bytes,
    CutOff,
    Fault,
    Injected,
    Injection,
    LongLine,
    Lost,
    Port,
    Prints,
    Stale,
    Torn,
    Turns,
    Verify,
    When,
    Where,
    load_behaviour,
)
from harness.emulator.noise import INJECTED, Noise
from harness.errors import UsageError

EVERYTHING = """
[upload_fails]
times = 1
[upload_cut_off]
percent = 95
[upload_verify_failed]
exit_code = 1
[upload_lies]
[header_rejected]
[another_board]
serial_number = "OTHER1"
[stale_output]
lines = ["old 1", "old 2"]
[torn_by_reset]
[router_stalls]
after_prints = 8
[reader_lost]
after_prints = 3
[bytes_dropped]
every_bytes = 100
[bytes_doubled]
every_bytes = 50
seed = 7
[bytes_garbled]
every_bytes = 64
where = "uart"
times = 2
[prints_torn]
every_bytes = 3
[prints_reordered]
[prints_repeated]
every_prints = 5
[long_line]
times = 1
[injected]
what = ["nul"]
[port_renumbered]
[port_gone]
after_ms = 1500
[port_denied]
[adb]
state = "unauthorized"
for_ms = 200
[linux_side_boots]
adb_ms = 100
router_ms = 300
"""


def load(tmp_path: Path, text: str) -> Behaviour:
    path = tmp_path / "behave.toml"
    path.write_text(text)
    return load_behaviour(path)


def test_every_key_is_read(tmp_path: Path) -> None:
    made = load(tmp_path, EVERYTHING)
    assert made == Behaviour(
        upload_fails=Fault(1),
        upload_cut_off=CutOff(None, percent=95),
        upload_verify_failed=Verify(None, exit_code=1),
        upload_lies=Fault(None),
        header_rejected=Fault(None),
        another_board=AnotherBoard(None, When.UPLOAD, 0, "OTHER1"),
        stale_output=Stale(None, ("old 1", "old 2")),
        torn_by_reset=Fault(None),
        router_stalls=After(None, 8),
        reader_lost=Lost(None, 3, 5000),
        bytes_dropped=Bytes(None, 100, 1, Where.PORT),
        bytes_doubled=Bytes(None, 50, 7, Where.PORT),
        bytes_garbled=Bytes(2, 64, 1, Where.UART),
        prints_torn=Torn(None, 3, 50),
        prints_reordered=Prints(None, 2),
        prints_repeated=Prints(None, 5),
        long_line=LongLine(1, 0, 10_000_000),
        injected=Injection(None, 0, (Injected.NUL,)),
        port_renumbered=Port(None, When.UPLOAD, 0),
        port_gone=Port(None, When.TIME, 1500),
        port_denied=Port(None, When.UPLOAD, 0),
        adb=Adb(None, AdbState.UNAUTHORIZED, 200),
        linux_side_boots=Booting(None, 100, 300),
    )
    assert all(getattr(made, field.name) is not None for field in fields(Behaviour))


def test_no_file_and_an_empty_one_are_a_board_that_behaves(tmp_path: Path) -> None:
    assert load_behaviour(None) == load(tmp_path, "") == Behaviour()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[upload_fail]\n", "did you mean 'upload_fails'"),
        ("[upload_fails]\ntime = 1\n", "did you mean 'times'"),
        ("[upload_fails]\ntimes = 0\n", "give a number from 1|is 0"),
        ("[bytes_dropped]\n", "'bytes_dropped.every_bytes' is missing"),
        ("[adb]\nstate = 'offlin'\n", "did you mean 'offline'"),
        ("[injected]\nwhat = ['nil']\n", "did you mean 'nul'"),
        ("[reader_lost]\nfor_s = 5\n", "wrong unit 's'; did you mean 'for_ms'"),
        ("[upload_lies\n", "this is not TOML"),
        ("upload_lies = true\n", "is True"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load(tmp_path, text)
    assert str(tmp_path / "behave.toml") in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the behaviour file"):
        load_behaviour(tmp_path / "absent.toml")


def test_the_documentation_has_every_key() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "uno-q-standin.md").read_text()
    named = [field.name for field in fields(Behaviour) if f"`[{field.name}]`" in text]
    assert named == [field.name for field in fields(Behaviour)]


def test_turns_run_out() -> None:
    turns, fault = Turns(), Fault(2)
    assert [turns.take(fault) for _ in range(3)] == [True, True, False]
    assert not turns.left(fault)
    assert turns.take(Fault(None))
    assert not turns.take(None)


def noise(**faults: object) -> Noise:
    return Noise(Behaviour(**faults), Turns())  # type: ignore[arg-type]  # By name.


DATA = bytes(range(256)) * 8


def passed(made: Noise, piece: int = 7) -> bytes:
    out = b""
    for at in range(0, len(DATA), piece):
        out += b"".join(made.on_print(DATA[at : at + piece]))
    return out


def test_dropped_bytes_are_as_many_as_asked_for_and_the_same_each_time() -> None:
    spec = Bytes(None, every_bytes=64, seed=3, where=Where.PORT)
    out = passed(noise(bytes_dropped=spec))
    assert len(out) == len(DATA) - len(DATA) // 64
    assert out == passed(noise(bytes_dropped=spec), piece=1)
    assert out != passed(noise(bytes_dropped=Bytes(None, 64, 4, Where.PORT)))


def test_doubled_bytes() -> None:
    out = passed(noise(bytes_doubled=Bytes(None, 64, 3, Where.PORT)))
    assert len(out) == len(DATA) + len(DATA) // 64


def test_garbled_bytes_differ_in_one_bit_and_stop_after_their_turns() -> None:
    out = passed(noise(bytes_garbled=Bytes(5, 64, 3, Where.PORT)))
    wrong = [a ^ b for a, b in zip(out, DATA, strict=True) if a != b]
    assert [bits.bit_count() for bits in wrong] == [1] * 5


def test_what_hits_the_uart_leaves_the_port_alone() -> None:
    made = noise(bytes_dropped=Bytes(None, 64, 3, Where.UART))
    assert passed(made) == DATA
    assert len(made.on_uart(DATA)) == len(DATA) - len(DATA) // 64


def test_prints_are_reordered_whole() -> None:
    made = noise(prints_reordered=Prints(None, 2))
    prints = [b"Reading 1: ", b"1234\n", b"Reading 2: ", b"4567\n"]
    out = [piece for each in prints for piece in made.on_print(each)]
    assert out == [b"Reading 1: ", b"Reading 2: ", b"1234\n"]
    made.boots()
    assert made.on_print(b"boot\n") == [b"boot\n"]


def test_prints_are_repeated_whole() -> None:
    made = noise(prints_repeated=Prints(1, 2))
    out = [made.on_print(each) for each in (b"a", b"b", b"c", b"d")]
    assert out == [[b"a"], [b"b", b"b"], [b"c"], [b"d"]]


def test_hostile_bytes_and_a_long_line_come_between_prints() -> None:
    made = noise(
        injected=Injection(1, after_prints=1, what=tuple(Injected)),
        long_line=LongLine(1, after_prints=2, line_bytes=1000),
    )
    out = [made.on_print(b"x\n") for _ in range(4)]
    assert out[0] == [b"x\n"]
    assert out[1] == [b"x\n", *INJECTED.values()]
    assert out[2] == [b"x\n", b"x" * 1000]
    assert out[3] == [b"x\n"]
    with pytest.raises(UnicodeDecodeError):
        INJECTED[Injected.BAD_UTF8].decode()
