"""One owner of a board at a time, and ports that others have; between real processes."""

from __future__ import annotations

import grp
import os
import pwd
import random
import selectors
import stat
import subprocess
import sys
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.arduino.port import Port
from harness.bench import places
from harness.bench.owner import BoardTaken, claim_board, lock_path, owner_of
from harness.bench.usable import modem_manager_hint, require_usable
from harness.clock import Deadline
from harness.errors import BenchError, DeviceError, UsageError
from harness.process import end, spawn

ROOT = Path(__file__).parents[2]
BOARD = "2629845674"

HOLD = """
import sys
from harness.bench.owner import claim_board
with claim_board(sys.argv[1], purpose="hil test unoq"):
    print("held", flush=True)
    sys.stdin.read()
"""

COMPETE = """
import os, sys
from pathlib import Path
from harness.bench.owner import claim_board
witness = Path(sys.argv[2])
while True:
    with claim_board(sys.argv[1], purpose="competing", timeout_s=120) as claim:
        # Two owners would write over each other here.
        witness.write_text(str(os.getpid()))
        print("held", int(claim.left_by is not None), flush=True)
        for _ in range(20):
            os.sched_yield()
            if witness.read_text() != str(os.getpid()):
                print("two-owners 0", flush=True)
"""

HOLD_PORT = """
import os, sys
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
with open("/proc/self/comm", "w") as name:
    name.write(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def lock_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks of the test's own: those of the machine are for real boards."""
    folder = tmp_path / "locks"
    monkeypatch.setenv("HIL_LOCK_DIR", str(folder))
    return folder


@contextmanager
def child(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python child that says when it holds what it is to hold."""
    process = spawn((sys.executable, "-c", code, *arguments), cwd=ROOT, stdin=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        end(process, grace_s=0.5)


def test_the_second_waits_is_told_why_and_gives_up_at_its_limit() -> None:
    said: list[str] = []
    with child(HOLD, BOARD) as process:
        with (
            pytest.raises(
                BoardTaken, match=rf"^board '{BOARD}' was not free within 0\.3 s: held by process"
            ) as at,
            claim_board(BOARD, purpose="second", timeout_s=0.3, progress=said.append),
        ):
            pytest.fail("two owners")
        assert isinstance(at.value, DeviceError)
        assert at.value.holder is not None
        assert at.value.holder.pid == process.pid
        assert f"process {process.pid}" in at.value.remedy
        (line,) = said
        assert line.startswith(f"board {BOARD}: waiting for process {process.pid} (")
        assert ", hil test unoq, since 2" in line
        held_by = owner_of(BOARD)
        assert held_by is not None
        assert f"process {process.pid}" in held_by
        with claim_board("another board", purpose="not in the way", timeout_s=5) as claim:
            assert not claim.waited


def test_the_second_gets_it_when_the_first_gives_it_back() -> None:
    with child(HOLD, BOARD) as process:
        told: list[str] = []

        def tell(line: str) -> None:
            told.append(line)
            assert process.stdin is not None
            process.stdin.close()

        with claim_board(BOARD, purpose="second", timeout_s=60, progress=tell) as claim:
            assert [line.split(" ")[2] for line in told] == ["waiting", "free"]
            assert claim.left_by is None
            assert claim.remark is None
            assert claim.waited
    assert owner_of(BOARD) is None


def test_a_board_of_a_killed_owner_is_taken_over_and_said_so() -> None:
    with child(HOLD, BOARD) as process:
        process.kill()
        process.wait()
    assert owner_of(BOARD) is None
    said: list[str] = []
    with claim_board(BOARD, purpose="next", progress=said.append) as claim:
        assert claim.left_by is not None
        assert claim.left_by.pid == process.pid
        (line,) = said
        assert line == claim.remark
        assert line.startswith(f"took over board '{BOARD}' from process {process.pid} (")
        assert line.endswith("and ended without giving it back")
    with claim_board(BOARD, purpose="after that", progress=said.append) as claim:
        assert claim.left_by is None
    assert len(said) == 1


def test_an_owner_that_ends_by_an_error_gives_it_back() -> None:
    with pytest.raises(KeyboardInterrupt), claim_board(BOARD, purpose="first"):
        raise KeyboardInterrupt
    with claim_board(BOARD, purpose="second", timeout_s=5) as claim:
        assert claim.left_by is None


class Crowd:
    """Children that all want one board, over and over, and are killed at any moment."""

    def __init__(self, size: int, witness: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.children: list[subprocess.Popen[bytes]] = []
        self.witness = witness
        for _ in range(size):
            self.add()

    def add(self) -> None:
        process = spawn(
            (sys.executable, "-c", COMPETE, BOARD, str(self.witness)),
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        self.children.append(process)
        self.selector.register(process.stdout, selectors.EVENT_READ, process)

    def replace(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.selector.unregister(process.stdout)
        self.children.remove(process)
        process.kill()
        end(process, grace_s=0.5)
        self.add()

    def lines(self, limit_s: float) -> list[tuple[subprocess.Popen[bytes], list[str]]]:
        """What was said since; whole lines only matter for counting, and each is one write."""
        return [
            (key.data, os.read(key.fd, 65536).decode().splitlines())
            for key, _ in self.selector.select(limit_s)
        ]

    def close(self) -> None:
        for process in self.children:
            process.kill()
        for process in self.children:
            end(process, grace_s=0.5)
        self.selector.close()


def test_many_that_are_killed_at_any_moment_never_own_it_together(tmp_path: Path) -> None:
    chance = random.Random(4)
    crowd = Crowd(6, tmp_path / "witness")
    owned = taken_over = killed = 0
    owners: set[int] = set()
    deadline = Deadline.after(120)
    try:
        while killed < 25 or owned < 300 or taken_over < 3:
            assert not deadline.expired, f"{owned} claims, {killed} killed, {taken_over} taken over"
            for process, lines in crowd.lines(deadline.remaining_s):
                assert not any(line.startswith("two-owners") for line in lines)
                owned += len(lines)
                taken_over += sum(line == "held 1" for line in lines)
                owners.add(process.pid)
                if lines and chance.random() < 0.1:
                    # The one that was just heard, which may have the board, or any other.
                    alive = [process, *crowd.children]
                    victim = alive[0] if chance.random() < 0.7 else chance.choice(alive)
                    if victim in crowd.children:
                        crowd.replace(victim)
                        killed += 1
    finally:
        crowd.close()
    assert len(owners) > 6
    with claim_board(BOARD, purpose="afterwards", timeout_s=5):
        pass


def test_a_file_that_was_tidied_away_meanwhile_locks_nothing() -> None:
    # As a cleaner of /tmp does: the waiter would hold a file that nobody else finds.
    with child(HOLD, BOARD) as process:

        def tidy(line: str) -> None:
            if "waiting" in line:
                lock_path(BOARD).unlink()
                process.kill()

        with claim_board(BOARD, purpose="second", timeout_s=60, progress=tidy):
            assert owner_of(BOARD) is not None
            with (
                pytest.raises(BoardTaken),
                claim_board(BOARD, purpose="third", timeout_s=0.1),
            ):
                pytest.fail("two owners")


def test_every_user_may_open_the_lock_whatever_the_umask_of_its_maker(lock_folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with claim_board(BOARD, purpose="careful"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock_path(BOARD).stat().st_mode) == 0o666
    assert stat.S_IMODE(lock_folder.stat().st_mode) == 0o1777


def as_nobody(act: Callable[[], object]) -> str:
    """What ``act`` raises when another user than root does it; root's own tests only."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            act()
            said = "nothing"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(pid, 0)
    return said


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")


def claim_for(seconds: float) -> None:
    with claim_board(BOARD, purpose="another user's", timeout_s=seconds):
        pass


@pytest.fixture
def common_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A lock folder below one that every user can reach, unlike the test's own."""
    folder = Path("/tmp") / f"hil-test-locks-{os.getpid()}"
    monkeypatch.setenv("HIL_LOCK_DIR", str(folder))
    yield folder
    for each in folder.iterdir() if folder.is_dir() else ():
        each.unlink()
    folder.rmdir()


@needs_root
def test_two_users_of_a_machine_exclude_each_other(common_folder: Path) -> None:
    with claim_board(BOARD, purpose="root's"):
        said = as_nobody(lambda: claim_for(0.3))
        assert said.startswith(f"BoardTaken: board '{BOARD}' was not free within 0.3 s: held by")
        assert "of user 'root'" in said
    assert as_nobody(lambda: claim_for(5)) == "nothing"
    # And the other way round: the file is the other user's now.
    lock_path(BOARD).unlink()
    assert as_nobody(lambda: claim_for(5)) == "nothing"
    assert lock_path(BOARD).stat().st_uid == 65534
    with claim_board(BOARD, purpose="root's", timeout_s=5):
        assert "BoardTaken" in as_nobody(lambda: claim_for(0.1))
    assert common_folder == lock_path(BOARD).parent


@needs_root
def test_a_lock_that_another_user_closed_is_a_sentence(common_folder: Path) -> None:
    common_folder.mkdir(mode=0o1777)
    lock_path(BOARD).touch(mode=0o600)
    said = as_nobody(lambda: claim_for(5))
    assert said.startswith("BenchError: cannot open the lock")
    assert said.endswith("Permission denied; it belongs to user 'root'")


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder"])
def test_what_somebody_else_put_in_the_locks_place_is_left_alone(
    lock_folder: Path, tmp_path: Path, kind: str
) -> None:
    lock_folder.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("not ours")
    path = lock_path(BOARD)
    if kind == "link":
        path.symlink_to(precious)
    elif kind == "hard link":
        path.hardlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with (
        pytest.raises(BenchError, match="cannot open the lock") as at,
        claim_board(BOARD, purpose="x"),
    ):
        pytest.fail("locked")
    assert "remove that file" in at.value.remedy
    assert precious.read_text() == "not ours"
    assert kind == "folder" or owner_of(BOARD) is None


def test_nowhere_to_lock_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HIL_LOCK_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(BenchError, match="cannot make the folder of the boards' locks") as at:
        claim_for(1)
    assert "HIL_LOCK_DIR" in at.value.remedy


def test_a_board_without_serial_number_cannot_be_owned() -> None:
    with pytest.raises(UsageError, match="without serial number"), claim_board("", purpose="x"):
        pass


def test_virtual_boards_are_locked_in_their_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_RUN_DIR", str(tmp_path / "one"))
    with claim_board("HILUNOQ0001", purpose="one", virtual=True):
        assert owner_of("HILUNOQ0001") is None
        assert owner_of("HILUNOQ0001", virtual=True) is not None
        monkeypatch.setenv("HIL_RUN_DIR", str(tmp_path / "two"))
        with claim_board("HILUNOQ0001", purpose="two", virtual=True, timeout_s=5):
            pass


def test_the_machines_folder_is_one_that_every_user_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIL_LOCK_DIR")
    for name, mode in (("mine", 0o755), ("loose", 0o777), ("common", 0o1777)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    folders = tuple(tmp_path / name for name in ("absent", "mine", "loose", "common"))
    monkeypatch.setattr(places, "LOCK_FOLDERS", folders)
    assert places.lock_dir() == tmp_path / "common"


@pytest.fixture
def port() -> Iterator[Port]:
    master, slave = os.openpty()
    tty.setraw(slave)
    yield Port(os.ttyname(slave), "0x2341", "0x0078", BOARD, "pty")
    os.close(slave)
    os.close(master)


def test_a_free_port_is_usable(port: Port) -> None:
    require_usable(port)


def test_a_port_that_another_program_holds_names_it(port: Port) -> None:
    said: list[str] = []
    with child(HOLD_PORT, port.address, "minicom") as process:
        with pytest.raises(
            DeviceError,
            match=rf"of board '{BOARD}' is held by minicom \(process {process.pid}\)$",
        ) as at:
            require_usable(port, progress=said.append)
        assert "serial monitor" in at.value.remedy
        assert said == []


def test_a_port_that_modem_manager_probes_is_waited_for(port: Port) -> None:
    with child(HOLD_PORT, port.address, "ModemManager") as process:
        hint = modem_manager_hint(port)
        assert hint is not None
        assert 'ATTRS{idVendor}=="2341", ATTRS{idProduct}=="0078"' in hint
        with pytest.raises(DeviceError, match="is held by ModemManager") as at:
            require_usable(port, probed_s=0)
        assert 'ENV{ID_MM_DEVICE_IGNORE}="1"' in at.value.remedy
        said: list[str] = []

        def let_go(line: str) -> None:
            said.append(line)
            process.kill()

        require_usable(port, progress=let_go, probed_s=60)
        assert said == [f"waiting for ModemManager to stop probing port {port.address!r}"]


def test_a_port_without_permission_names_group_and_rule(port: Port) -> None:
    Path(port.address).chmod(0o600)
    if os.getuid() == 0:
        said = as_nobody(lambda: require_usable(port))
        group = Path(port.address).group()
    else:
        Path(port.address).chmod(0)
        with pytest.raises(DeviceError) as at:
            require_usable(port)
        said = f"DeviceError: {at.value}"
        group = Path(port.address).group()
    assert said.startswith(
        f"DeviceError: port {port.address!r} of board '{BOARD}' may not be opened"
    )
    assert said.endswith(f":{group}")


@pytest.mark.parametrize(
    ("group", "members", "remedy"),
    [
        ("dialout", [], "sudo usermod -aG dialout $USER, then log in again"),
        ("dialout", ["me"], "log out and in again: user 'me' was added to the port's group"),
        ("root", [], "install the udev rules"),
    ],
)
def test_the_remedy_for_a_forbidden_port(
    port: Port, monkeypatch: pytest.MonkeyPatch, group: str, members: list[str], remedy: str
) -> None:
    # The refusal and the groups are made up, since root may open everything.
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK and real(path, mode))
    named = grp.struct_group((group, "x", 20, members))
    monkeypatch.setattr(grp, "getgrgid", lambda _: named)
    user = pwd.struct_passwd(("me", "x", 1000, 1000, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    with pytest.raises(DeviceError, match="may not be opened by user 'me'") as at:
        require_usable(port)
    assert remedy in at.value.remedy
    assert 'ATTRS{idVendor}=="2341", ATTRS{idProduct}=="0078", MODE="0660"' in at.value.remedy
    assert "/etc/udev/rules.d/60-" in at.value.remedy


def test_a_port_that_is_gone_is_for_the_opener_to_say(port: Port) -> None:
    require_usable(Port("/dev/nothing", port.vid, port.pid, BOARD, "x"))
