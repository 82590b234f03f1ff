"""adb as a real child process in every manner it has: well, hung, flooding, complaining."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness import process
from harness.backdoor import adb, adb_errors, openocd
from harness.backdoor.adb import AdbDevice, Listed, list_boards
from harness.boards.board import find_board
from harness.clock import Deadline, monotonic_s, pause
from tests.contract import fake_adb
from tests.contract.fake_adb import HEAD, Answer

SN = "HILUNOQ0001"


def require_gone(folder: Path) -> None:
    """The process whose id the program wrote down has been reaped."""
    pid = int((folder / "pid").read_text())
    deadline = Deadline.after(5)
    while process.alive(pid):
        assert not deadline.expired, f"process {pid} is still there"
        pause(0.01)


def test_a_board_that_is_ready_answers_with_its_own_exit_code(tmp_path: Path) -> None:
    answers = {
        "cat /proc/uptime": Answer("12.5 3.0\n"),
        "systemctl is-active arduino-router": Answer("inactive\n", code=3),
        'sh -c "exit 1; # no complaint of adb"': Answer("", "Error: of a program", 1),
    }
    device = AdbDevice(fake_adb.board(tmp_path, answers, serial_number=SN), SN)
    device.check()
    assert list_boards(device.program) == (Listed(SN, "device"),)
    assert device.shell(("cat", "/proc/uptime")).stdout == "12.5 3.0\n"
    done = device.shell(("systemctl", "is-active", "arduino-router"))
    assert (done.returncode, done.stdout) == (3, "inactive\n")
    assert device.shell(("sh", "-c", "exit 1; # no complaint of adb")).returncode == 1
    assert fake_adb.calls(tmp_path)[2] == ["-s", SN, "shell", "cat", "/proc/uptime"]


def test_a_hung_adb_that_ignores_signals_is_ended_and_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adb, "LIST_TIMEOUT_S", 0.5)
    program = fake_adb.script(
        tmp_path,
        f"trap '' INT TERM HUP\necho $$ > {tmp_path}/pid\necho waiting for device\n"
        "while :; do sleep 30; done",
    )
    device = AdbDevice(program, SN)
    for ask in (device.check, lambda: device.shell(("true",), timeout_s=0.5)):
        (tmp_path / "pid").unlink(missing_ok=True)
        began_s = monotonic_s()
        with pytest.raises(
            adb_errors.AdbWedged,
            match=r"adb did not come back within 0\.5 s from '(devices|shell true)'",
        ) as caught:
            ask()
        assert monotonic_s() - began_s < 10
        assert "adb kill-server" in caught.value.remedy
        assert caught.value.evidence == ("waiting for device",)
        require_gone(tmp_path)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_is_stopped_early(tmp_path: Path, stream: str) -> None:
    program = fake_adb.python(
        tmp_path,
        f"""
import os, sys
open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
for _ in range(50):
    sys.{stream}.write("x" * (1 << 20))
open({str(tmp_path / "wrote it all")!r}, "w")
""",
    )
    with pytest.raises(adb_errors.AdbGarbage, match=r"printed more than \d+ bytes for 'shell cat'"):
        AdbDevice(program, SN).shell(("cat", "/dev/zero"))
    require_gone(tmp_path)
    assert not (tmp_path / "wrote it all").exists()


@pytest.mark.parametrize(
    ("printed", "kind", "sentence"),
    [
        (f"{HEAD}\\n", adb_errors.AdbNoDevice, "adb sees no board: 'HILUNOQ0001' was asked for"),
        (f"{HEAD}\\n{SN}\\tunauthorized\\n", adb_errors.AdbUnauthorized, "'unauthorized'"),
        (f"{HEAD}\\n{SN}\\toffline\\n", adb_errors.AdbOffline, "'offline'"),
        (
            f"{HEAD}\\n{SN}\\tno permissions (missing udev rules?)\\n",
            adb_errors.AdbNoPermission,
            "may not open the USB device",
        ),
        (f"{HEAD}\\nABC\\tdevice\\n", adb_errors.AdbNotFound, "it sees 'ABC'"),
        ("\\033[31mwho are you\\377\\000\\n", adb_errors.AdbGarbage, "cannot be read"),
        ("", adb_errors.AdbGarbage, "cannot be read"),
    ],
)
def test_what_the_list_says_is_told(
    tmp_path: Path, printed: str, kind: type[Exception], sentence: str
) -> None:
    device = AdbDevice(fake_adb.script(tmp_path, f"printf '{printed}'"), SN)
    with pytest.raises(kind, match=sentence):
        device.check()


def test_a_failing_list_is_told_with_what_adb_said(tmp_path: Path) -> None:
    body = "echo '* failed to start daemon' >&2; echo 'error: cannot connect to daemon' >&2; exit 1"
    with pytest.raises(adb_errors.AdbServerBroken, match="cannot be started") as caught:
        AdbDevice(fake_adb.script(tmp_path, body), SN).check()
    assert caught.value.evidence[1] == "error: cannot connect to daemon"


def test_a_non_zero_exit_without_a_word_is_told(tmp_path: Path) -> None:
    with pytest.raises(adb_errors.AdbError, match="adb exited with 9 and said nothing for 'devic"):
        AdbDevice(fake_adb.script(tmp_path, "exit 9"), SN).check()


def test_a_board_that_went_away_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    body = (
        f'if [ "$1" = devices ]; then printf "{HEAD}\\nABC\\tdevice\\n"; exit; fi\n'
        "echo \"error: device '$2' not found\" >&2; exit 1"
    )
    with pytest.raises(adb_errors.AdbNotFound, match=r"'HILUNOQ0001'; it sees 'ABC'"):
        AdbDevice(fake_adb.script(tmp_path, body), SN).shell(("true",))


def test_a_program_that_does_not_start_is_told(tmp_path: Path) -> None:
    program = tmp_path / "adb"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    with pytest.raises(adb_errors.AdbError, match="does not run: cannot start"):
        AdbDevice(program, SN).check()


class AdbServer:
    """adb's own server, as far as a client's ``shell`` needs it: to the real program it is one.

    Source: adb's protocol (packages/modules/adb, OVERVIEW.TXT, SERVICES.TXT, shell_protocol.h).
    """

    def __init__(self, state: str) -> None:
        self.state = state
        self.told: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, suppress(OSError, ValueError):
                connection.settimeout(10)
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        while True:
            request = self._take(connection, int(self._take(connection, 4), 16)).decode()
            if request == "host:version":
                connection.sendall(b"OKAY" + _counted(b"0029"))
                return
            if request.startswith("host:devices"):
                connection.sendall(b"OKAY" + _counted(f"{SN}\t{self.state}\n".encode()))
                return
            if self.state != "device":
                connection.sendall(b"FAIL" + _counted(f"device {self.state}".encode()))
                return
            if request.endswith("features"):
                connection.sendall(b"OKAY" + _counted(b"shell_v2"))
                return
            if not request.startswith("shell"):
                connection.sendall(b"OKAY" + (b"\1" * 8 if "tport" in request else b""))
                continue
            command = request.partition(":")[2]
            self.told.append(command)
            connection.sendall(b"OKAY")
            done = process.run(("/bin/sh", "-c", command), timeout_s=10)
            for kind, data in (
                (1, done.stdout.encode()),
                (2, done.stderr.encode()),
                (3, bytes([done.returncode])),
            ):
                connection.sendall(bytes([kind]) + len(data).to_bytes(4, "little") + data)
            # What is closed with bytes unread is torn down, and the exit code with it.
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
            return

    def _take(self, connection: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = connection.recv(count - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return data


def _counted(data: bytes) -> bytes:
    return b"%04x" % len(data) + data


@pytest.fixture
def real_adb() -> Path:
    """The real program, where one is installed."""
    found = shutil.which("adb")
    if found is None:
        pytest.skip("adb is not installed")
    return Path(found)


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdbServer]:
    """A server of the test's own, so that no board of this machine is touched."""
    made = AdbServer(getattr(request, "param", "device"))
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(made.port))
    yield made
    made.close()


def test_through_the_real_adb_every_word_arrives_as_it_was(
    real_adb: Path, server: AdbServer, tmp_path: Path
) -> None:
    side = find_board("unoq").linux_side
    assert side is not None
    device = AdbDevice(real_adb, SN)
    device.check()
    # On the board: a program that writes down its words, where OpenOCD would be.
    program = tmp_path / "openocd"
    program.write_text('#!/bin/sh\nfor each; do echo "[$each]"; done\nexit 3\n')
    program.chmod(0o755)
    words = (str(program), *openocd.reset_words(side)[1:], 'a "b" $HOME `id` \\')
    done = device.shell(words)
    assert done.stdout.splitlines() == [f"[{word}]" for word in words[1:]]
    assert done.returncode == 3
    assert len(server.told) == 1


@pytest.mark.parametrize(
    ("server", "kind"),
    [("offline", adb_errors.AdbOffline), ("unauthorized", adb_errors.AdbUnauthorized)],
    indirect=["server"],
)
def test_the_real_adbs_complaints_are_understood(
    real_adb: Path, server: AdbServer, kind: type[Exception]
) -> None:
    assert server.told == []
    device = AdbDevice(real_adb, SN)
    for ask in (device.check, lambda: device.shell(("true",))):
        with pytest.raises(kind):
            ask()


def test_a_server_port_that_is_not_adbs_is_told(
    real_adb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(other.getsockname()[1]))

        def refuse() -> None:
            with suppress(OSError):
                while True:
                    other.accept()[0].close()

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        with pytest.raises(adb_errors.AdbServerBroken, match="cannot be started or spoken with"):
            AdbDevice(real_adb, SN).check()
        other.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)
    assert os.environ["ANDROID_ADB_SERVER_PORT"]
