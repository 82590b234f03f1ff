"""The list of reset methods: order, what each attempt leaves, and giving up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.backdoor.reset import BoardGivenUp, reset_board
from harness.boards.board import ResetMethod, find_board
from harness.errors import DeviceError, DutFailure, ToolError, WorldError

OPENOCD, UPLOAD, POWER = ResetMethod.OPENOCD, ResetMethod.UPLOAD, ResetMethod.POWER
METHODS = (OPENOCD, UPLOAD, POWER)


class Board:
    """Comes back after the method named; remembers what was done to it."""

    def __init__(self, helped_by: ResetMethod | None) -> None:
        self.helped_by = helped_by
        self.done: list[ResetMethod] = []

    def means(self, *methods: ResetMethod) -> dict[ResetMethod, Callable[[], None]]:
        def doing(method: ResetMethod) -> Callable[[], None]:
            return lambda: self.done.append(method)

        return {method: doing(method) for method in methods}

    def came_back(self) -> bool:
        return self.done[-1] is self.helped_by


def test_the_uno_q_is_reset_in_the_order_of_its_file() -> None:
    assert find_board("unoq").reset_methods == METHODS


def test_the_first_that_helps_is_the_last_that_is_tried() -> None:
    board = Board(helped_by=UPLOAD)
    result = reset_board(METHODS, board.means(*METHODS), board.came_back)
    assert board.done == [OPENOCD, UPLOAD]
    assert result.method is UPLOAD
    assert [(each.method, each.helped) for each in result.attempts] == [
        (OPENOCD, False),
        (UPLOAD, True),
    ]
    assert list(map(str, result.attempts)) == [
        "reset through the board's debugger: done, but the board did not come back",
        "uploading again: the board came back",
    ]


def test_a_method_that_fails_is_recorded_and_the_next_is_tried() -> None:
    board = Board(helped_by=POWER)
    means = board.means(POWER)

    def wedged() -> None:
        raise DeviceError("adb did not come back within 15 s", remedy="kill it")

    def refused() -> None:
        raise ToolError("the upload tool failed", remedy="again")

    result = reset_board(METHODS, {**means, OPENOCD: wedged, UPLOAD: refused}, board.came_back)
    assert [each.outcome for each in result.attempts] == [
        "adb did not come back within 15 s",
        "the upload tool failed",
        "the board came back",
    ]


def test_a_method_that_is_not_set_up_is_told_and_passed_over() -> None:
    board = Board(helped_by=None)
    with pytest.raises(
        BoardGivenUp, match="board 'unoq' did not come back after a reset"
    ) as caught:
        reset_board(METHODS, board.means(OPENOCD), board.came_back, board="unoq")
    assert isinstance(caught.value, WorldError)
    assert not isinstance(caught.value, DutFailure)
    assert caught.value.evidence == (
        "reset through the board's debugger: done, but the board did not come back",
        "uploading again: not set up for this board",
        "switching its power: not set up for this board",
    )
    assert len(caught.value.attempts) == 3
    assert "power" in caught.value.remedy


def test_a_board_without_methods_is_given_up_at_once() -> None:
    with pytest.raises(BoardGivenUp, match="nothing could be tried"):
        reset_board((), {}, lambda: True)


def test_a_check_that_fails_is_an_attempt_that_did_not_help() -> None:
    board = Board(helped_by=UPLOAD)

    def came_back() -> bool:
        if board.done == [OPENOCD]:
            raise DeviceError("the board's OpenOCD printed 0 of 16 bytes", remedy="again")
        return board.came_back()

    result = reset_board(METHODS, board.means(*METHODS), came_back)
    assert result.attempts[0].outcome == "the board's OpenOCD printed 0 of 16 bytes"
    assert result.method is UPLOAD


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a mistake of the bench")])
def test_what_is_no_fault_leaves_at_once(error: BaseException) -> None:
    board = Board(helped_by=POWER)

    def interrupted() -> None:
        raise error

    with pytest.raises(type(error)):
        reset_board(METHODS, {**board.means(POWER), OPENOCD: interrupted}, board.came_back)
    assert board.done == []
