import json
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.emulator.control import CONNECTIONS, LINE_BYTES, ControlServer, Reply, ask
from harness.errors import DeviceError


class Bench:
    """A server turned by hand, and its clients."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.server = ControlServer.open(path)
        self.closed: list[int] = []
        self.server.before_close = self.closed.append
        self.asked: list[object] = []
        self.clients: list[socket.socket] = []

    def client(self) -> socket.socket:
        each = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        each.settimeout(5)
        each.connect(str(self.path))
        self.clients.append(each)
        self.turn()
        return each

    def turn(self) -> None:
        for fd in self.server.descriptors():
            self.server.ready(fd, self._handle)

    def _handle(self, request: object) -> Reply:
        self.asked.append(request)
        return {"ok": True}

    def close(self) -> None:
        self.server.close()
        for each in self.clients:
            each.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A control socket that listens."""
    with TemporaryDirectory(prefix="hil") as folder:
        made = Bench(Path(folder) / "control.sock")
        yield made
        made.close()


def reply(client: socket.socket) -> dict[str, object]:
    answer = json.loads(client.recv(LINE_BYTES))
    assert isinstance(answer, dict)
    return answer


def test_line_may_come_in_pieces_and_two_at_once(bench: Bench) -> None:
    client = bench.client()
    client.sendall(b'{"op": "st')
    bench.turn()
    assert bench.asked == []
    client.sendall(b'atus"}\n{"op": "reset"}\n')
    bench.turn()
    assert bench.asked == [{"op": "status"}, {"op": "reset"}]


@pytest.mark.parametrize("line", [b"\xff\xfe", b"{", b"", b"[" * 20000, b"[1]", b'"op"', b"NaN"])
def test_garbage_is_answered_and_the_client_may_go_on(bench: Bench, line: bytes) -> None:
    client = bench.client()
    client.sendall(line + b"\n")
    bench.turn()
    assert reply(client)["ok"] is False
    client.sendall(b'{"op": "status"}\n')
    bench.turn()
    assert reply(client) == {"ok": True}


def test_endless_line_is_refused_and_hung_up_on(bench: Bench) -> None:
    client = bench.client()
    client.setblocking(False)
    for _ in range(4):
        client.send(b"x" * (LINE_BYTES // 2))
        bench.turn()
        if bench.closed:
            break
    client.settimeout(5)
    assert "longer than" in str(reply(client)["error"])
    assert client.recv(1) == b""


def test_two_clients_do_not_mix(bench: Bench) -> None:
    first, second = bench.client(), bench.client()
    first.sendall(b'{"op": "fla')
    second.sendall(b'{"op": "status"}\n')
    bench.turn()
    assert reply(second) == {"ok": True}
    first.sendall(b'sh"}\n')
    bench.turn()
    assert bench.asked == [{"op": "status"}, {"op": "flash"}]


def test_crowd_pushes_out_the_oldest(bench: Bench) -> None:
    crowd = [bench.client() for _ in range(CONNECTIONS + 1)]
    assert crowd[0].recv(1) == b""
    assert len(bench.closed) == 1
    crowd[-1].sendall(b'{"op": "status"}\n')
    bench.turn()
    assert reply(crowd[-1]) == {"ok": True}


def test_client_that_hangs_up_at_once_is_forgotten(bench: Bench) -> None:
    bench.client().close()
    bench.turn()
    assert len(bench.server.descriptors()) == 1


def test_nobody_there_is_a_board_not_plugged_in(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="is not plugged in: No such file"):
        ask(tmp_path / "control.sock", {"op": "status"}, timeout_s=1)


def test_no_answer_is_a_timeout(bench: Bench) -> None:
    with pytest.raises(DeviceError, match=r"did not answer 'status' within 0\.05 s"):
        ask(bench.path, {"op": "status"}, timeout_s=0.05)
