"""Where model and real router differ, the model is wrong.

``HIL_ARDUINO_ROUTER``, or ``arduino_router`` in the user's configuration, names the real one.
"""

from __future__ import annotations

import os
import select
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgpack
import pytest
import serial

from harness.boards.board import find_board
from harness.clock import Deadline, monotonic_s
from harness.emulator.behaviour import Behaviour, Turns
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.emulator.line import Line
from harness.emulator.pty import PtyPort
from harness.emulator.real_route import RealRouter, Whole
from harness.emulator.route import ROUTER_VERSION, Route, Router
from harness.emulator.wakeup import READ, WRITE
from harness.machine.config import load_config
from tests.contract.test_adb_standin import upload
from tests.emulated.rpc_firmware import build_arm, raw_image
from tests.plugged import open_port

HELLO = b"MCU starting RPC Bridge communication"


@pytest.fixture(scope="session")
def program() -> Path:
    """The real router; without one the tests are skipped."""
    named = os.environ.get("HIL_ARDUINO_ROUTER")
    found = Path(named) if named else load_config().arduino_router
    if found is None or not found.is_file():
        pytest.skip("no arduino-router is configured; see docs/uno-q-standin.md")
    return found


def call(method: object, *params: object, number: object = 1) -> bytes:
    packed = msgpack.packb([0, number, method, list(params)])
    assert isinstance(packed, bytes)
    return packed


def told(method: str, *params: object) -> bytes:
    packed = msgpack.packb([2, method, list(params)])
    assert isinstance(packed, bytes)
    return packed


END = call("$/reset", number=99)
"""Comes last in each stream: its answer says that all before it was dealt with."""

ENDED = b"\x94\x01\x63\xc0\xc3"


class Played:
    """A route whose chip and reader the test plays."""

    def __init__(self, folder: Path, program: Path | None) -> None:
        self.line = Line(PtyPort.open(folder / "tty"))
        self.reader = serial.Serial(str(folder / "tty"), timeout=5)
        self.line.look()
        self.route: Route
        if program is None:
            self.route = Router(self.line, Behaviour(), Turns())
        else:
            self.route = RealRouter(self.line, folder, program, lambda _: None)

    def until(self, enough: Callable[[bytes], bool]) -> bytes:
        """Turn the loop until the chip has got enough; all that it has got."""
        deadline = Deadline.after(20)
        while not enough(bytes(self.route.to_chip)):
            assert not deadline.expired, bytes(self.route.to_chip)
            self.line.look()
            self.route.settle(monotonic_s())
            wanted = self.route.wanted()
            reads = [fd for fd, mask in wanted.items() if mask & READ]
            writes = [fd for fd, mask in wanted.items() if mask & WRITE]
            for fds in select.select(reads, writes, [], 0.01)[:2]:
                for fd in fds:
                    self.route.ready(fd)
        got = bytes(self.route.to_chip)
        self.route.to_chip.clear()
        return got

    def answers(self, stream: bytes, least: int = 0) -> list[object]:
        """What the chip gets for ``stream``, sorted, once that is ``least`` answers.

        The real router deals with each call in a thread of its own, so their order says nothing.
        """
        self.route.said(stream)
        got = self.until(lambda got: len(unpacked(got)) >= least)
        self.route.said(END)
        got += self.until(lambda more: ENDED in more)
        return sorted(unpacked(got), key=repr)

    def connect(self) -> None:
        """Wait until the router takes the reader for one."""
        deadline = Deadline.after(20)
        connected = False
        while not connected:
            assert not deadline.expired
            self.route.said(call("mon/connected", number=98))
            got = self.until(lambda got: len(unpacked(got)) == 1)
            connected = unpacked(got) == [[1, 98, None, True]]

    def close(self) -> None:
        self.reader.close()
        self.route.close()
        self.line.port.close()


@pytest.fixture
def both(program: Path) -> Iterator[tuple[Played, Played]]:
    """The model and the real router, each with a reader."""
    with TemporaryDirectory(prefix="hil") as one, TemporaryDirectory(prefix="hil") as two:
        played = (Played(Path(one), None), Played(Path(two), program))
        for each in played:
            each.connect()
        yield played
        for each in played:
            each.close()


STREAMS = {
    "start text": HELLO + call("$/reset"),
    "connected": call("mon/connected"),
    "numbers of calls": call("$/reset", number=127) + call("$/reset", number=70_000),
    "write": call("mon/write", "text"),
    "write of bytes": call("mon/write", b"\x00\xff"),
    "write of broken text": b"\x94\x00\x01\xa9mon/write\x91\xa3\xff\xfe!",
    "write told": told("mon/write", "text"),
    "parameters of connected": call("mon/connected", 1),
    "parameters of read": call("mon/read"),
    "negative read": call("mon/read", -1),
    "read of text": call("mon/read", "5"),
    "read of a bool": call("mon/read", True),
    "parameters of write": call("mon/write"),
    "write of a number": call("mon/write", 5),
    "parameters of mon/reset": call("mon/reset", 1),
    "parameters of reset": call("$/reset", 1),
    "register": call("$/register", "f"),
    "parameters of register": call("$/register"),
    "unknown": call("no/such"),
    "unknown told": told("no/such"),
    "loose values": b"\x05\xc0\xa3abc\x80\x90\xc3",
    "short message": msgpack.packb([0, 1, "$/reset"]),
    "long message": msgpack.packb([0, 1, "$/reset", [], 1]),
    "kind of its own": msgpack.packb([7, 1, "$/reset", []]),
    "kind is a bool": msgpack.packb([False, 1, "$/reset", []]),
    "number is negative": call("$/reset", number=-1),
    "number is a bool": call("$/reset", number=True),
    "number is text": call("$/reset", number="1"),
    "method is a number": call(5),
    "method is bytes": call(b"$/reset"),
    "parameters are a map": msgpack.packb([0, 1, "$/reset", {}]),
    "parameters are nothing": msgpack.packb([0, 1, "$/reset", None]),
    "answer to nothing": msgpack.packb([1, 1, None, True]),
    "cancel": told("$/cancelRequest", 1) + told("$/cancelRequest"),
    "nested": call("no/such", [[[{"a": [1.5, None, b"x"]}]]]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_chip_gets_the_same_answers(both: tuple[Played, Played], name: str) -> None:
    model, real = both
    expected = model.answers(STREAMS[name])
    assert real.answers(STREAMS[name], least=len(expected) - 1) == expected


def test_a_method_is_registered_once_until_reset(both: tuple[Played, Played]) -> None:
    for each in both:
        each.route.said(call("$/register", "f"))
        assert unpacked(each.until(lambda got: len(unpacked(got)) == 1)) == [[1, 1, None, True]]
        assert each.answers(call("$/register", "f"), least=1) == [
            [1, 1, [5, "route already exists: f"], None],
            [1, 99, None, True],
        ]
        assert each.answers(call("$/register", "f"), least=1)[0] == [1, 1, None, True]


def test_read_with_nothing_to_read_gives_nothing(both: tuple[Played, Played]) -> None:
    for each in both:
        assert each.answers(call("mon/read", 64), least=1)[0] == [1, 1, None, b""]


def unpacked(data: bytes) -> list[object]:
    unpacker = msgpack.Unpacker(raw=False, unicode_errors="surrogateescape")
    unpacker.feed(data)
    return list(unpacker)


def test_prints_reach_the_reader_byte_by_byte_the_same(both: tuple[Played, Played]) -> None:
    every = bytes(range(256)) * 16
    for each in both:
        # One call at a time: what is only told may overtake another in the real router.
        each.answers(call("mon/write", every), least=1)
        assert each.reader.read(len(every)) == every
        each.answers(b"\x94\x00\x01\xa9mon/write\x91\xa3\xff\xfe!", least=1)
        assert each.reader.read(3) == b"\xff\xfe!"


def test_typed_input_comes_in_the_same_pieces(both: tuple[Played, Played]) -> None:
    for each in both:
        got = b""
        each.line.incoming += b"0123456789" * 300
        deadline = Deadline.after(20)
        while len(got) < 3000:
            assert not deadline.expired
            answer = each.answers(call("mon/read", 4096), least=1)[0]
            assert isinstance(answer, list)
            assert len(answer[3]) <= 1024
            got += answer[3]
        assert got == b"0123456789" * 300


def test_bytes_that_are_no_messagepack_end_the_connection_of_both(
    both: tuple[Played, Played],
) -> None:
    for each in both:
        each.route.said(b"\xc1")
        deadline = Deadline.after(20)
        # The real one opens its port again, and what comes in between is lost.
        while not each.route.to_chip:
            assert not deadline.expired
            each.route.said(call("$/version"))
            each.line.look()
            wanted = [fd for fd, mask in each.route.wanted().items() if mask & READ]
            for fd in select.select(wanted, [], [], 0.05)[0]:
                each.route.ready(fd)
        assert each.route.to_chip.startswith(b"\x94\x01\x01\xc0")


def test_messages_pass_whole() -> None:
    whole = Whole()
    message = told("mon/write", "x" * 50)
    assert whole.passed(HELLO + message[:20]) == HELLO
    assert whole.passed(message[20:] + message[:1]) == message
    assert whole.passed(b"") == b""
    assert Whole().passed(b"\xc1abc") == b"\xc1abc"


@pytest.fixture
def board(program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PluggedBoard]:
    """A stand-in whose route is the real router."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    with TemporaryDirectory(prefix="hil") as folder:
        config = Path(folder) / "config.toml"
        config.write_text(f'arduino_router = "{program}"\n')
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        monkeypatch.setenv("HIL_CONFIG", str(config))
        yield plug_in(find_board("unoq"), lease_pid=os.getpid())
        for each in plugged_boards():
            each.unplug()


def test_sketch_says_through_the_real_router_what_it_says_through_the_model(
    board: PluggedBoard, tmp_path: Path
) -> None:
    image = raw_image(build_arm(tmp_path))
    with open_port(board) as port:
        for _ in range(3):
            assert upload(board, image, tmp_path).ok
            assert port.read(5) == b"boot\n"
            for letter in b"hello":
                port.write(bytes((letter,)))
                assert port.read(1) == bytes((letter,))
        port.write(b"W")
        assert port.read(3) == b"hi2"
        port.write(b"U")
        assert port.read(8) == b"refused\n"
        port.write(b"V")
        # The one difference: a version is what the builder made it.
        assert port.read(1) in (ROUTER_VERSION[:1].encode(), b"0")
