"""The lock between real processes: who waits, what they are told, and what a crash leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.clock import pause
from harness.errors import BenchError
from harness.process import end, spawn
from harness.storage import lock
from harness.storage.lock import LockTimeout, hold, hold_if_free, is_held, read_holder

HOLD = """
import sys
from pathlib import Path
from harness.storage.lock import hold
with hold(Path(sys.argv[1]), purpose="a test of the lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lock nobody has yet, in a folder that is not there yet."""
    return tmp_path / "locks" / "one.lock"


def start_holder(path: Path) -> subprocess.Popen[bytes]:
    child = spawn(
        (sys.executable, "-c", HOLD, str(path)),
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    return child


def test_a_waiter_that_gives_up_names_the_holder(path: Path) -> None:
    child = start_holder(path)
    said: list[str] = []
    try:
        with (
            pytest.raises(LockTimeout, match=r"not free within 0\.2 s: held by process") as caught,
            hold(path, purpose="waiting", timeout_s=0.2, progress=said.append),
        ):
            pytest.fail("two holders")
        holder = caught.value.holder
        assert holder is not None
        assert holder.pid == child.pid
        assert holder.purpose == "a test of the lock"
        assert isinstance(caught.value, BenchError)
        assert said == [f"waiting for {holder}"]
        with hold_if_free(path, purpose="looking") as free:
            assert not free
        assert read_holder(path) == holder
    finally:
        end(child)


def test_a_killed_holder_frees_it_and_its_record_decides_nothing(path: Path) -> None:
    child = start_holder(path)
    child.kill()
    end(child)
    assert read_holder(path) is not None
    with hold(path, purpose="after the crash", timeout_s=5) as before:
        assert before is not None
        assert before.pid == child.pid
        assert before.purpose == "a test of the lock"
        holder = read_holder(path)
        assert holder is not None
        assert holder.purpose == "after the crash"
    assert read_holder(path) is None
    with hold(path, purpose="after that", timeout_s=5) as before:
        assert before is None


def test_looking_whether_it_is_held_changes_nothing(path: Path) -> None:
    assert not is_held(path)
    assert not path.exists()
    child = start_holder(path)
    assert is_held(path)
    child.kill()
    end(child)
    left = path.read_bytes()
    assert not is_held(path)
    assert path.read_bytes() == left != b""


def test_a_record_of_an_older_version_has_no_user(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"pid": 7, "command": "hil", "since": "then", "purpose": "x"}')
    holder = read_holder(path)
    assert str(holder) == "process 7 (hil), x, since then"


def test_a_record_of_another_user_says_whose_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(
        '{"pid": 7, "command": "hil", "since": "then", "purpose": "x", "user": "no one here"}'
    )
    assert str(read_holder(path)) == "process 7 of user 'no one here' (hil), x, since then"


def test_a_waiter_is_not_told_of_a_record_that_is_just_written_over(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The holder has the lock, and the record of a dead one before it still stands there.
    child = start_holder(path)
    signed = path.read_bytes()
    path.write_text('{"pid": 7, "command": "dead", "since": "then", "purpose": "x"}')

    def sign(seconds: float) -> None:
        path.write_bytes(signed)
        pause(seconds)

    monkeypatch.setattr(lock, "pause", sign)
    said: list[str] = []
    try:
        with (
            pytest.raises(LockTimeout),
            hold(path, purpose="waiting", timeout_s=0.3, progress=said.append),
        ):
            pytest.fail("two holders")
    finally:
        end(child)
    assert [line.split(" (")[0] for line in said] == [f"waiting for process {child.pid}"]


def test_a_waiter_gets_it_when_the_holder_is_done(path: Path) -> None:
    child = start_holder(path)
    got = threading.Event()

    def wait() -> None:
        with hold(path, purpose="second", timeout_s=20):
            got.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not got.wait(0.2)
    assert child.stdin is not None
    child.stdin.close()
    waiter.join(20)
    assert got.is_set()
    end(child)


def test_it_is_free_after_an_error_inside(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), hold(path, purpose="first"):
        raise KeyboardInterrupt
    with hold_if_free(path, purpose="second") as free:
        assert free


def test_a_child_of_the_holder_does_not_keep_it(path: Path) -> None:
    with hold(path, purpose="first"):
        child = spawn((sys.executable, "-c", "import sys; sys.stdin.read()"), stdin=subprocess.PIPE)
    try:
        with hold_if_free(path, purpose="second") as free:
            assert free
    finally:
        end(child)


@pytest.mark.parametrize("record", ["", "{}", "[1]", "7", '{"pid": "x"}', "\0\0", "[" * 9999])
def test_a_record_that_cannot_be_read_is_none(path: Path, record: str) -> None:
    path.parent.mkdir()
    path.write_text(record, encoding="utf-8")
    assert read_holder(path) is None


def test_a_place_that_cannot_hold_a_lock_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with (
        pytest.raises(BenchError, match="cannot open the lock"),
        hold(tmp_path / "file" / "x.lock", purpose="none"),
    ):
        pass
