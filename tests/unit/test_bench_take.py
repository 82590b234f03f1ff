"""Taking a board: found, in nobody's use, fit for use; and what is asked again after a wait."""

from __future__ import annotations

import os
import threading
import tty
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from harness.arduino.port import BoardAbsent, Port
from harness.bench.inventory import Inventory, load_inventory
from harness.bench.owner import BoardTaken, claim_board, owner_of
from harness.bench.quarantine import BoardQuarantined, record_outcome
from harness.bench.take import TakenBoard, take_board
from harness.boards.board import find_board
from harness.errors import DeviceError, UsageError

BOARD = "2629845674"


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks and memory of the test's own."""
    monkeypatch.setenv("HIL_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def port() -> Iterator[Port]:
    master, slave = os.openpty()
    tty.setraw(slave)
    yield Port(os.ttyname(slave), "0x2341", "0x0078", BOARD, "pty")
    os.close(slave)
    os.close(master)


def take(
    look: Sequence[Port] | Iterator[Sequence[Port]],
    inventory: Inventory | None = None,
    *,
    said: list[str] | None = None,
    wait_s: float = 20,
    address: str | None = None,
    serial_number: str | None = None,
    core_version: str | None = None,
    virtual: bool = False,
) -> AbstractContextManager[TakenBoard]:
    return take_board(
        find_board("unoq"),
        lambda: next(look) if isinstance(look, Iterator) else look,
        replace(inventory or Inventory(), wait_s=wait_s),
        purpose="a test",
        address=address,
        serial_number=serial_number,
        core_version=core_version,
        virtual=virtual,
        progress=(said if said is not None else []).append,
        sysfs=Path("/nowhere"),
    )


def inventory_of(lab: Path, *lines: str) -> Inventory:
    path = lab / "bench.toml"
    path.write_text("\n".join(("[[board]]", f'serial_number = "{BOARD}"', 'name = "unoq"', *lines)))
    return load_inventory(path)


def test_a_board_that_is_there_is_taken_and_given_back(lab: Path, port: Port) -> None:
    inventory = inventory_of(lab, 'core_version = "0.90.0"')
    with take([port], inventory) as taken:
        assert taken.port == port
        assert taken.entry == inventory.boards[0]
        assert not taken.claim.waited
        assert owner_of(BOARD) is not None
    assert owner_of(BOARD) is None
    with take([port]) as taken:
        assert taken.entry is None


def test_a_board_that_is_not_there_is_not_locked(lab: Path) -> None:
    with pytest.raises(BoardAbsent, match="is plugged in"), take([]):
        pytest.fail("taken")
    assert not (lab / "locks").exists()


def test_a_board_in_quarantine_is_refused_and_not_waited_for(lab: Path, port: Port) -> None:
    inventory = inventory_of(lab, 'quarantined = "loose socket"')
    with claim_board(BOARD, purpose="another run"):
        with pytest.raises(BoardQuarantined, match="loose socket"), take([port], inventory):
            pytest.fail("taken")
        record_outcome(BOARD, fault="no banner", after_faults=1)
        with pytest.raises(BoardQuarantined, match="no banner"), take([port]):
            pytest.fail("taken")


def test_a_board_that_another_run_has_is_waited_for_to_a_limit(port: Port) -> None:
    said: list[str] = []
    with (
        claim_board(BOARD, purpose="another run"),
        pytest.raises(BoardTaken, match=r"not free within 0\.2 s"),
        take([port], said=said, wait_s=0.2),
    ):
        pytest.fail("taken")
    assert len(said) == 1


class OtherRun:
    """Has the board, and gives it back when somebody waits for it."""

    def __init__(self) -> None:
        self.waited_for = threading.Event()
        self.has_it = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with claim_board(BOARD, purpose="another run"):
            self.has_it.set()
            self.waited_for.wait(20)

    def __enter__(self) -> OtherRun:
        self.thread.start()
        assert self.has_it.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.waited_for.set()
        self.thread.join(20)


def take_after(
    other: OtherRun, looks: Iterator[Sequence[Port]]
) -> AbstractContextManager[TakenBoard]:
    return take_board(
        find_board("unoq"),
        lambda: next(looks),
        Inventory(),
        purpose="a test",
        progress=lambda _: other.waited_for.set(),
    )


def test_after_a_wait_the_board_is_looked_for_again(port: Port) -> None:
    was = replace(port, address="/dev/ttyACM9")
    with OtherRun() as other, take_after(other, iter([[was], [port]])) as taken:
        assert taken.port == port
        assert taken.claim.waited
        assert taken.claim.left_by is None


def test_after_a_wait_it_may_have_been_quarantined(port: Port) -> None:
    with OtherRun() as other:
        looks = iter([[port], [port]])

        def quarantine(_: str) -> None:
            record_outcome(BOARD, fault="no banner", after_faults=1)
            other.waited_for.set()

        with (
            pytest.raises(BoardQuarantined, match="no banner"),
            take_board(
                find_board("unoq"),
                lambda: next(looks),
                Inventory(),
                purpose="a test",
                progress=quarantine,
            ),
        ):
            pytest.fail("taken")
    assert owner_of(BOARD) is None


def test_the_port_of_the_entry_is_insisted_on(lab: Path, port: Port) -> None:
    inventory = inventory_of(lab, 'port = "/dev/elsewhere"')
    with (
        pytest.raises(BoardAbsent, match="at '/dev/elsewhere' with serial number"),
        take([port], inventory, serial_number=BOARD),
    ):
        pytest.fail("taken")
    with take([port], inventory, serial_number=BOARD, address=port.address) as taken:
        assert taken.port == port
    # Not chosen by its number, it is found wherever it is.
    with take([port], inventory) as taken:
        assert taken.port == port


def test_a_board_that_is_kept_for_another_core_is_not_waited_for(lab: Path, port: Port) -> None:
    inventory = inventory_of(lab, 'core_version = "0.90.0"')
    with take([port], inventory, core_version="0.90.0"):
        pass
    with (
        claim_board(BOARD, purpose="another run"),
        pytest.raises(UsageError, match="is kept for core"),
        take([port], inventory, core_version="0.55.2"),
    ):
        pytest.fail("taken")


def test_a_stand_in_is_locked_in_its_runtime_folder(
    lab: Path, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_RUN_DIR", str(lab / "run"))
    with claim_board(BOARD, purpose="a real board's"), take([port], virtual=True):
        assert owner_of(BOARD, virtual=True) is not None


def test_a_board_of_another_machine_is_not_looked_for(lab: Path) -> None:
    inventory = inventory_of(lab, 'url = "rfc2217://lab2:4000"')
    with (
        pytest.raises(UsageError, match="cannot open yet"),
        take(iter(()), inventory, serial_number=BOARD),
    ):
        pytest.fail("taken")


def test_a_port_that_another_program_has_gives_the_board_back(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(*_: object, **__: object) -> None:
        raise DeviceError("is held by minicom", remedy="close it")

    monkeypatch.setattr("harness.bench.take.require_usable", held)
    with pytest.raises(DeviceError, match="minicom"), take([port]):
        pytest.fail("taken")
    assert owner_of(BOARD) is None
