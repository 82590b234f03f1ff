"""The model of the router between a sketch's remote calls and the port."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgpack
import pytest
import serial
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import monotonic_s
from harness.emulator.behaviour import Behaviour, Fault, Lost, Stale, Torn, Turns
from harness.emulator.line import Line
from harness.emulator.pty import PtyPort
from harness.emulator.route import IDLE_POLLS, MONITOR_BYTES, READ_HOLD_S, Router, Wires
from harness.emulator.rpc import Call, Decoder, read_call

HELLO = b"MCU starting RPC Bridge communication"


def request(method: str, *params: object, number: int = 1) -> bytes:
    packed = msgpack.packb([0, number, method, list(params)])
    assert isinstance(packed, bytes)
    return packed


def told(method: str, *params: object) -> bytes:
    packed = msgpack.packb([2, method, list(params)])
    assert isinstance(packed, bytes)
    return packed


class Bench:
    """A router between a chip that the test plays and a port that it may open."""

    def __init__(self, folder: Path, behaviour: Behaviour | None = None) -> None:
        self.line = Line(PtyPort.open(folder / "tty"))
        self.link = folder / "tty"
        self.router = Router(self.line, behaviour or Behaviour(), Turns())

    def answers(self) -> list[object]:
        unpacker = msgpack.Unpacker(raw=False)
        unpacker.feed(bytes(self.router.to_chip))
        self.router.to_chip.clear()
        return list(unpacker)

    def ask(self, method: str, *params: object) -> object:
        self.router.said(request(method, *params))
        (answer,) = self.answers()
        return answer

    def type(self, data: bytes) -> None:
        self.line.incoming += data

    def open(self) -> serial.Serial:
        port = serial.Serial(str(self.link), timeout=5)
        self.line.look()
        assert self.line.reader
        return port


@pytest.fixture
def bench() -> Iterator[Bench]:
    with TemporaryDirectory() as folder:
        made = Bench(Path(folder))
        yield made
        made.line.port.close()


def bench_that(folder: Path, **faults: object) -> Bench:
    return Bench(folder, Behaviour(**faults))  # type: ignore[arg-type]  # By name.


def test_start_text_is_skipped_and_the_version_is_told(bench: Bench) -> None:
    bench.router.said(HELLO + request("$/reset") + request("$/version", number=2))
    assert bench.answers() == [[1, 1, None, True], [1, 2, None, "0.6.0"]]


def test_each_print_is_one_fragment_for_whoever_reads(bench: Bench) -> None:
    with bench.open() as port:
        bench.router.said(told("mon/write", "Reading 1: ") + told("mon/write", b"1234\r\n"))
        assert port.read(17) == b"Reading 1: 1234\r\n"
    assert bench.ask("mon/write", "abc") == [1, 1, None, 3]


def test_without_a_reader_prints_are_lost_and_connected_is_false(bench: Bench) -> None:
    bench.line.look()
    bench.router.said(told("mon/write", "lost"))
    assert bench.line.dropped_bytes == 4
    assert bench.ask("mon/connected") == [1, 1, None, False]
    with bench.open():
        assert bench.ask("mon/connected") == [1, 1, None, True]


def test_read_is_answered_at_once_when_there_is_input(bench: Bench) -> None:
    bench.type(b"hello")
    assert bench.ask("mon/read", 3) == [1, 1, None, b"hel"]
    assert bench.ask("mon/read", 64) == [1, 1, None, b"lo"]


def poll_until_idle(bench: Bench) -> None:
    for _ in range(IDLE_POLLS):
        assert bench.ask("mon/read", 64) == [1, 1, None, b""]


@pytest.mark.parametrize("busy", [told("mon/write", "x"), request("mon/read", 5)])
def test_read_of_a_sketch_that_is_busy_is_answered_at_once(bench: Bench, busy: bytes) -> None:
    poll_until_idle(bench)
    bench.type(b"typed")
    bench.router.said(busy)
    bench.line.incoming.clear()
    bench.answers()
    assert bench.ask("mon/read", 64) == [1, 1, None, b""]


def test_read_with_nothing_to_read_is_held_and_then_answered_empty(bench: Bench) -> None:
    poll_until_idle(bench)
    bench.router.said(request("mon/read", 64))
    now_s = monotonic_s()
    due_s = bench.router.settle(now_s)
    assert 0 < due_s <= READ_HOLD_S
    assert bench.answers() == []
    assert bench.router.settle(now_s + READ_HOLD_S) == math.inf
    assert bench.answers() == [[1, 1, None, b""]]


def test_input_ends_a_held_read(bench: Bench) -> None:
    poll_until_idle(bench)
    bench.router.said(request("mon/read", 64))
    bench.type(b"x")
    bench.router.settle(monotonic_s())
    assert bench.answers() == [[1, 1, None, b"x"]]


def test_one_read_gives_no_more_than_the_routers_buffer(bench: Bench) -> None:
    bench.type(b"y" * 3000)
    assert bench.ask("mon/read", 4096) == [1, 1, None, b"y" * MONITOR_BYTES]


def test_polls_are_no_traffic(bench: Bench) -> None:
    bench.line.traffic_at_s = 0.0
    bench.router.said(request("mon/read", 64) + request("mon/connected", number=2))
    bench.router.settle(monotonic_s() + 1)
    assert bench.line.traffic_at_s == 0.0
    bench.router.said(told("mon/write", "x"))
    assert bench.line.traffic_at_s > 0


@pytest.mark.parametrize(
    ("method", "params", "error"),
    [
        ("mon/connected", [1], [1, "Invalid number of parameters, expected no parameters"]),
        ("mon/read", [], [1, "Invalid number of parameters, expected max bytes to read"]),
        (
            "mon/read",
            [-1],
            [1, "Invalid parameter type, expected positive int for max bytes to read"],
        ),
        ("mon/write", [], [1, "Invalid number of parameters, expected data to write"]),
        (
            "mon/write",
            [5],
            [1, "Invalid parameter type, expected []byte or string for data to write"],
        ),
        ("mon/reset", [1], [1, "Invalid number of parameters, expected no parameters"]),
        ("$/reset", [1], [1, "invalid params: no params are expected"]),
        ("$/register", [], [1, "invalid params: only one param is expected, got 0"]),
        ("no/such", [], [2, "method no/such not available"]),
    ],
)
def test_wrong_calls_are_refused_in_the_routers_words(
    bench: Bench, method: str, params: Sequence[object], error: object
) -> None:
    assert bench.ask(method, *params) == [1, 1, error, None]


def test_a_method_is_registered_once_until_reset(bench: Bench) -> None:
    assert bench.ask("$/register", "f") == [1, 1, None, True]
    assert bench.ask("$/register", "f") == [1, 1, [5, "route already exists: f"], None]
    assert bench.ask("$/reset") == [1, 1, None, True]
    assert bench.ask("$/register", "f") == [1, 1, None, True]


def test_notifications_are_never_answered(bench: Bench) -> None:
    bench.router.said(told("no/such") + told("mon/read", 5) + told("mon/write"))
    assert bench.answers() == []


def test_monitor_reset_loses_the_reader_until_socat_is_back(bench: Bench) -> None:
    with bench.open():
        assert bench.ask("mon/reset") == [1, 1, None, True]
        assert bench.ask("mon/connected") == [1, 1, None, False]
        bench.router.said(told("mon/write", "lost"))
        assert bench.line.dropped_bytes == 4


def test_bytes_that_are_no_messagepack_end_the_connection_and_nothing_else(bench: Bench) -> None:
    with bench.open() as port:
        bench.router.said(b"\xc1" + told("mon/write", "lost with the read"))
        bench.router.said(told("mon/write", "after"))
        assert port.read(5) == b"after"


def test_message_cut_by_a_reset_is_forgotten_or_swallows_what_follows(tmp_path: Path) -> None:
    half = told("mon/write", "x" * 100)[:20]
    for torn, answers in ((None, 1), (Fault(None), 0)):
        bench = bench_that(tmp_path, torn_by_reset=torn)
        bench.router.said(half)
        bench.router.boots()
        bench.router.said(HELLO + request("$/reset"))
        assert len(bench.answers()) == answers
        bench.line.port.close()
        bench.link.unlink()


def test_typed_input_outlives_a_reset_and_answers_do_not(bench: Bench) -> None:
    bench.type(b"typed")
    bench.router.said(request("$/version"))
    bench.router.boots()
    assert bench.answers() == []
    assert bench.ask("mon/read", 9) == [1, 1, None, b"typed"]


def test_router_that_is_not_up_yet_loses_what_comes(bench: Bench) -> None:
    bench.router.up_at_s = monotonic_s() + 1000
    bench.router.said(request("$/version"))
    assert bench.answers() == []


def test_stale_output_comes_after_an_upload(tmp_path: Path) -> None:
    bench = bench_that(tmp_path, stale_output=Stale(1, ()))
    with bench.open() as port:
        bench.router.said(told("mon/write", "old\n"))
        assert port.read(4) == b"old\n"
        bench.router.uploaded()
        bench.router.uploaded()
        bench.router.said(told("mon/write", "new\n"))
        assert port.read(8) == b"old\nnew\n"
    bench.line.port.close()


def test_reader_is_lost_for_a_while(tmp_path: Path) -> None:
    bench = bench_that(tmp_path, reader_lost=Lost(1, after_prints=1, for_ms=60_000))
    with bench.open() as port:
        bench.router.said(told("mon/write", "one") + told("mon/write", "two"))
        assert port.read(3) == b"one"
        assert bench.line.dropped_bytes == 3
        assert bench.ask("mon/connected") == [1, 1, None, False]
    bench.line.port.close()


def test_torn_prints_come_in_pieces_with_time_between(tmp_path: Path) -> None:
    bench = bench_that(tmp_path, prints_torn=Torn(None, every_bytes=2, pause_ms=50))
    with bench.open() as port:
        bench.router.said(told("mon/write", "abcde"))
        now_s = monotonic_s()
        bench.router.settle(now_s)
        assert port.read(2) == b"ab"
        bench.router.settle(now_s + 1)
        assert port.read(3) == b"cde"
    bench.line.port.close()


def test_wires_pass_bytes_as_they_are(tmp_path: Path) -> None:
    line = Line(PtyPort.open(tmp_path / "tty"))
    wires = Wires(line)
    with serial.Serial(str(tmp_path / "tty"), timeout=5) as port:
        wires.said(b"\x94\x00raw")
        assert port.read(5) == b"\x94\x00raw"
    line.incoming += b"typed"
    assert wires.to_chip == b"typed"
    assert wires.settle(0) == math.inf
    wires.ended()
    assert wires.to_chip == b""
    line.port.close()


@given(st.binary(max_size=300), st.integers(1, 40))
def test_any_bytes_in_any_pieces_never_raise(data: bytes, size: int) -> None:
    decoder = Decoder()
    for at in range(0, len(data), size):
        for call in decoder.feed(data[at : at + size]):
            assert isinstance(call, Call)


@given(st.lists(st.tuples(st.text(max_size=9), st.binary(max_size=40)), max_size=8), st.data())
def test_calls_survive_any_cut(calls: list[tuple[str, bytes]], data: st.DataObject) -> None:
    stream = b"".join(told(method, value) for method, value in calls)
    decoder = Decoder()
    found: list[Call] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += decoder.feed(stream[:size])
        stream = stream[size:]
    assert [(each.method, each.params[0]) for each in found] == calls


@pytest.mark.parametrize(
    "message",
    [
        5,
        "text",
        [],
        [0, 1, "m"],
        [0, -1, "m", []],
        [False, 1, "m", []],
        [0, True, "m", []],
        [3, "m", []],
        [2, b"m", []],
        [2, "m", 1],
        {},
    ],
)
def test_what_is_no_call_is_none(message: object) -> None:
    assert read_call(message) is None


def test_a_claim_of_a_huge_array_is_garbage_and_takes_no_memory() -> None:
    decoder = Decoder()
    assert list(decoder.feed(b"\xdd\xff\xff\xff\xff")) == []
    assert decoder.broken == 1
    assert [each.method for each in decoder.feed(told("after"))] == ["after"]
