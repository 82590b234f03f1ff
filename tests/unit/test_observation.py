from __future__ import annotations

import pytest

from harness.errors import DutFailure
from harness.report.expectation import require_arena_shortfall, require_equal, require_near
from harness.report.observation import (
    added_vector,
    detected_keyword,
    keyword_scores,
    load_failure,
    method_count,
)

SPOTTED = "  [silence]=-3.12\r\n  [yes]=8.95\r\n  [no]=nan\r\n\r\n>>> Detected: yes\r\n"
SHORT = (
    "ET| L [ET:memory_allocator.h:88] Memory allocation failed: 180B requested (adjusted for"
    " alignment), 4B available\r\nload_method failed (0x21)\r\n"
)


def test_add_model() -> None:
    assert added_vector("x\r\n[1,2,3] + 1 = [2.00, 3.00, 4.00]\r\n") == (2.0, 3.0, 4.0)
    assert added_vector("[1,2,3] + 1 = [2.00, 3.0") is None
    assert added_vector("[1,2,3] + 1 = [x]") is None


def test_hello() -> None:
    assert method_count("Model loaded OK!\r\n  Methods: 1\r\n") == 1
    assert method_count("  Methods: ") is None


def test_keywords() -> None:
    assert keyword_scores(SPOTTED)["yes"] == 8.95
    assert detected_keyword(SPOTTED) == "yes"
    assert detected_keyword("") is None


def test_load_failure_carries_the_allocators_numbers() -> None:
    failure = load_failure(SHORT)
    assert failure is not None
    assert (failure.stage, failure.code) == ("load_method", 0x21)
    assert (failure.requested_bytes, failure.available_bytes) == (180, 4)
    require_arena_shortfall(failure, arena_bytes=28672)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fine", "printed no failure"),
        (SHORT.replace("0x21", "0x14"), "with 0x14, load_method with 0x21 was expected"),
        (SHORT.replace("load_method", "execute"), "failed in 'execute'"),
        ("load_method failed (0x21)\r\n", "without the allocator's line"),
    ],
)
def test_another_failure_is_not_the_expected_one(text: str, says: str) -> None:
    with pytest.raises(DutFailure, match=says):
        require_arena_shortfall(load_failure(text), arena_bytes=28672)


def test_no_output_is_never_right() -> None:
    with pytest.raises(DutFailure, match="printed no answer"):
        require_equal("answer", None, (2.0,))
    with pytest.raises(DutFailure, match=r"wrong output: answer is 3, 2 was expected"):
        require_equal("answer", 3, 2)


def test_a_near_miss_is_near_and_nothing_is_not() -> None:
    require_near("logit", 9.47, 9.4684, 0.11)
    with pytest.raises(DutFailure, match=r"logit is 9.7, 9.468 was expected, 0.11 more or less"):
        require_near("logit", 9.7, 9.4684, 0.11)
    for nothing in (None, float("nan")):
        with pytest.raises(DutFailure, match="wrong output"):
            require_near("logit", nothing, 9.4684, 0.11)
