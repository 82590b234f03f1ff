import math

import pytest

from harness.emulator.governor import DUTY_ON_S, DUTY_PERIOD_S, SILENT_S, UNREAD_S, Leave, leave


def test_unread_board_runs_on_for_a_while() -> None:
    assert leave(101.0, reader=False, read_at_s=100.0, traffic_at_s=0.0) == Leave(
        True, 100.0 + UNREAD_S
    )


def test_unread_board_then_stands_still_until_woken() -> None:
    now_s = 100.0 + UNREAD_S
    assert leave(now_s, reader=False, read_at_s=100.0, traffic_at_s=now_s) == Leave(False, math.inf)


def test_read_board_runs_through_a_long_inference() -> None:
    permit = leave(100.0 + SILENT_S - 1, reader=True, read_at_s=100.0, traffic_at_s=100.0)
    assert permit == Leave(True, 100.0 + SILENT_S)


@pytest.mark.parametrize("period", [0, 1, 7, 1000])
def test_silent_board_gets_a_tenth_of_the_processor(period: int) -> None:
    begins_s = 100.0 + SILENT_S + period * DUTY_PERIOD_S
    on = leave(begins_s + DUTY_ON_S / 2, reader=True, read_at_s=0.0, traffic_at_s=100.0)
    off = leave(begins_s + DUTY_ON_S * 2, reader=True, read_at_s=0.0, traffic_at_s=100.0)
    assert on.run
    assert on.again_at_s == pytest.approx(begins_s + DUTY_ON_S)
    assert not off.run
    assert off.again_at_s == pytest.approx(begins_s + DUTY_PERIOD_S)
    assert pytest.approx(0.1) == DUTY_ON_S / DUTY_PERIOD_S
