from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.arena.lower import Attempt, Outcome, Shortfall, measure_lower, shortfall_of


class Pool:
    """A loader that needs ``least`` bytes; ``mark`` is what it reports as used after a load."""

    def __init__(
        self,
        least: int,
        *,
        limit: int = 65536,
        mark: int | str | None = "least",
        below: Outcome = Outcome.FAILS,
    ) -> None:
        self.least = least
        self.limit_bytes = limit
        self.mark = least if mark == "least" else mark
        self.below = below
        self.asked: list[int] = []

    def attempt(self, size_bytes: int) -> Attempt:
        assert 0 < size_bytes <= self.limit_bytes
        self.asked.append(size_bytes)
        works = size_bytes >= self.least
        mark = self.mark if isinstance(self.mark, int) else None
        return Attempt(size_bytes, Outcome.WORKS if works else self.below, mark)


def test_the_high_water_mark_saves_the_search() -> None:
    pool = Pool(30150)
    side = measure_lower(pool, [28672, 40960])
    assert side.smallest_bytes == 30150
    assert sorted(pool.asked) == [28672, 30149, 30150, 40960, 65536]
    assert side.loads == 5
    assert side.at(28672).outcome is Outcome.FAILS
    assert side.at(40960).works


@pytest.mark.parametrize("mark", [None, 20000, 30000, 31000, 40000, 0, 70000, -5])
def test_a_mark_that_is_wrong_or_missing_is_not_believed(mark: int | None) -> None:
    pool = Pool(30150, mark=mark)
    side = measure_lower(pool, [28672, 40960])
    assert side.smallest_bytes == 30150
    assert side.at(30149).outcome is Outcome.FAILS
    assert side.at(30150).works
    assert len(pool.asked) == len(set(pool.asked)) < 40


@pytest.mark.parametrize("least", [1, 2, 65535, 65536])
def test_the_ends_of_the_range_are_found(least: int) -> None:
    for mark in (None, least):
        assert measure_lower(Pool(least, mark=mark), [40960]).smallest_bytes == least


def test_where_nothing_works_there_is_no_smallest() -> None:
    pool = Pool(99999, limit=49152)
    side = measure_lower(pool, [28672, 40960, 65536])
    assert side.smallest_bytes is None
    assert pool.asked == [28672, 40960, 49152]
    assert side.at(65536).outcome is Outcome.NOT_LOADED


@pytest.mark.parametrize("below", [Outcome.CRASHES, Outcome.WRONG])
def test_a_crash_and_another_answer_do_not_work_either(below: Outcome) -> None:
    side = measure_lower(Pool(30150, below=below), [28672, 40960])
    assert side.smallest_bytes == 30150
    assert side.at(28672).outcome is below


LINE = "Memory allocation failed: {} requested (adjusted for alignment), {} available"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LINE.format("180B", "4B"), Shortfall(180, 4)),
        ("E " + LINE.format("68B", "64B") + " now", Shortfall(68, 64)),
        (LINE.format("-180B", "x"), None),
        (LINE.format("9" * 40 + "B", "4B"), None),
        ("180B requested", None),
        ("", None),
    ],
)
def test_the_allocators_line_is_read(text: str, expected: Shortfall | None) -> None:
    assert shortfall_of(text) == expected


def test_the_loader_is_asked_within_its_limit_only() -> None:
    check: Callable[[int], bool] = lambda size: 0 < size <= 4096  # noqa: E731
    pool = Pool(100, limit=4096)
    measure_lower(pool, [1, 50, 4096, 10**9])
    assert pool.asked
    assert all(check(size) for size in pool.asked)
