"""The lock between real processes: who waits, what they are told, and what a crash leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from harness.errors import BenchError
from harness.process import end, spawn
from harness.storage.lock import LockTimeout, hold, hold_if_free, read_holder

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
    with hold(path, purpose="after the crash", timeout_s=5):
        holder = read_holder(path)
        assert holder is not None
        assert holder.purpose == "after the crash"
    assert read_holder(path) is None


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


@pytest.mark.parametrize("record", ["", "{}", "[1]", '{"pid": "x"}', "\0\0"])
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
