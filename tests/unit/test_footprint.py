from __future__ import annotations

from pathlib import Path

import pytest

from harness.arduino.build_report import (
    UsedLibrary,
    build_properties,
    ceiling_alerts,
    read_report,
    require_libraries,
    require_platform,
    used_libraries,
)
from harness.arduino.core_home import CoreHome
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


CORE = CoreHome("arduino:zephyr", "0.90.0", Path("/h"), True, "image", "objects")
PLATFORM = "/h/data/packages/arduino/hardware/zephyr/0.90.0"
BRIDGE = {"name": "Arduino_RouterBridge", "version": "0.4.1", "install_dir": "/h/user/libraries/x"}
BUILT: dict[str, object] = {
    "board_platform": {"version": "0.90.0", "install_dir": PLATFORM},
    "used_libraries": [BRIDGE],
    "build_properties": [
        "upload.maximum_size=786432", "upload.maximum_data_size=262144",
        "upload.extension=bin-zsk.bin", "a.b=c=d",
    ],
    "executable_sections_size": SIZES,
}  # fmt: skip


def test_a_report_that_is_as_expected_raises_no_alert() -> None:
    report = read_report(BUILT, find_board("unoq"), CORE)
    assert report.alerts == ()
    assert report.core_version == "0.90.0"
    assert report.upload_extension == "bin-zsk.bin"
    assert report.libraries == (
        UsedLibrary("Arduino_RouterBridge", "0.4.1", "/h/user/libraries/x"),
    )
    assert report.footprint.flash_bytes == 485416


def test_a_ceiling_that_packaging_changed_is_an_alert_with_both_numbers() -> None:
    changed = ["upload.maximum_size=786432", "upload.maximum_data_size=131072"]
    report = read_report({**BUILT, "build_properties": changed}, find_board("unoq"), CORE)
    (alert,) = report.alerts
    assert alert == (
        "core 0.90.0 of board 'unoq' reports a RAM ceiling of 131072 B"
        " (upload.maximum_data_size), the board's data says 262144 B"
    )
    data = find_board("unoq").core_version("0.90.0")
    assert len(ceiling_alerts({}, data, "unoq")) == 2


@pytest.mark.parametrize(
    ("version", "folder"),
    [("0.91.0", PLATFORM), ("0.90.0", "/home/me/Arduino/hardware/arduino/zephyr"), ("", "")],
)
def test_another_core_than_the_expected_is_named(version: str, folder: str) -> None:
    require_platform("0.90.0", PLATFORM, CORE)
    with pytest.raises(ToolError) as got:
        require_platform(version, folder, CORE)
    for each in (repr(folder), PLATFORM, "0.90.0", version):
        assert each in got.value.message


def test_a_library_that_the_core_needs_is_there_and_new_enough() -> None:
    core = find_board("unoq").core_version("0.55.2")
    require_libraries(used_libraries([BRIDGE]), core, "unoq")
    with pytest.raises(ToolError, match=r"^Arduino_RouterBridge is missing") as got:
        require_libraries(used_libraries(None), core, "unoq")
    assert "hil core install" in got.value.remedy
    old = used_libraries([{**BRIDGE, "version": "0.2.9"}])
    with pytest.raises(ToolError, match=r"RouterBridge '0\.2\.9' from '/h/.*needed is 0\.3\.0"):
        require_libraries(old, core, "unoq")


def test_junk_in_a_report_is_passed_over() -> None:
    assert used_libraries([None, 3, BRIDGE]) == used_libraries([BRIDGE])
    assert build_properties(["a.b=c=d", 3, "alone"]) == {"a.b": "c=d", "alone": ""}
    assert build_properties({"a": "b"}) == {}


def test_the_benchs_own_platform_has_no_core_to_compare() -> None:
    report = read_report({"executable_sections_size": SIZES}, find_board("m33"), None)
    assert (report.alerts, report.libraries) == ((), ())
