from __future__ import annotations

import pytest

from harness.arduino.footprint import Footprint, check_budget, check_ceilings, read_footprint
from harness.boards.board import Budget, find_board
from harness.errors import DutFailure, ToolError

SIZES = [
    {"name": "text", "size": 485416, "max_size": 786432},
    {"name": "data", "size": 10952, "max_size": 262144},
]


def test_sizes_are_read() -> None:
    assert read_footprint(SIZES) == Footprint(485416, 786432, 10952, 262144)


def test_a_size_of_zero_has_no_key() -> None:
    assert read_footprint([{"name": "data", "max_size": 8}, SIZES[0]]).ram_bytes == 0


@pytest.mark.parametrize("sizes", [None, [], SIZES[:1], "text", [{"name": "text", "size": "1"}]])
def test_missing_sizes_are_a_fault(sizes: object) -> None:
    with pytest.raises(ToolError, match="reported no sizes"):
        read_footprint(sizes)


def test_changed_ceiling_is_said_with_both_numbers() -> None:
    core = find_board("m33").default_core_version
    good = Footprint(1, core.flash_bytes, 1, core.ram_bytes)
    check_ceilings(good, core, board="m33")
    with pytest.raises(ToolError, match=f"RAM ceiling of 131072 B.*says {core.ram_bytes} B"):
        check_ceilings(Footprint(1, core.flash_bytes, 1, 131072), core, board="m33")


def test_budget_is_a_limit_not_a_wish() -> None:
    budget = Budget(
        "KeywordSpotting", 100, 50, measured_flash_bytes=90, measured_ram_bytes=40, source="test"
    )
    check_budget(Footprint(100, 1000, 50, 1000), budget)
    with pytest.raises(DutFailure, match=r"takes 101 B of flash, 1 B over its budget of 100 B"):
        check_budget(Footprint(101, 1000, 50, 1000), budget)
    with pytest.raises(DutFailure, match="takes 51 B of RAM"):
        check_budget(Footprint(100, 1000, 51, 1000), budget)
