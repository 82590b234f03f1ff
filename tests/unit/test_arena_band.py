from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.arena.band import Band
from harness.arena.canary import CanaryResult
from harness.arena.image import Region
from harness.arena.text import as_json, band_text
from harness.boards.board import ArenaBand, CoreVersion, Standing, find_board
from tests.unit.arena_bands import BASE, ON, band_of, canary, image, upper_of

UNOQ = find_board("unoq")
OLD, NEW = UNOQ.core_version("0.55.2"), UNOQ.core_version("0.90.0")


def data(core: CoreVersion) -> ArenaBand:
    found = core.arena("KeywordSpotting")
    assert found is not None
    return found


def text(band: Band) -> str:
    return band_text([band], width=200)


def test_the_readmes_64_kb_on_0_55_2_comes_out() -> None:
    upper = upper_of(OLD)
    assert upper.room_bytes == 65536
    assert upper.globals_at(65536) == 70644
    assert upper.reach_bytes(65536) == 5108
    assert upper.fits_ram(65536)
    assert upper.largest_bytes == 60428
    assert upper.reach_bytes(upper.largest_bytes) == 0
    assert upper.reach_bytes(upper.largest_bytes + 1) == 1


def test_where_the_elf_marks_the_reservation_its_addresses_count() -> None:
    from harness.arena.upper import compute_upper

    marked = image(40960, reserved=Region(BASE + 65536 + 512, BASE + 131072))
    upper = compute_upper(OLD, ram_bytes=46000, pool_bytes=40960, image=marked)
    assert upper.basis == "addresses of the ELF"
    assert upper.largest_bytes == 60428 + 512
    assert upper.globals_at(65536) == 70644


def test_a_core_that_reserves_nothing_bounds_nothing() -> None:
    core = replace(NEW, stack_bytes=0, heap_bytes=0)
    band = band_of(core, None)
    assert not band.upper.reserves
    assert band.rows[0].reach_bytes == 0
    assert "this board reserves nothing" in text(band)


def test_a_band_that_agrees_has_no_contradiction() -> None:
    band = band_of(NEW, data(NEW))
    assert band.contradictions == ()
    assert band.exit_code == 0
    assert [row.loads for row in band.rows] == [False, True, True, True]
    shown = text(band)
    assert "180 B requested, 4 B available" in shown
    assert "contradict" not in shown
    assert "smallest that works: 30,150 B, one byte less does not (measured" in shown


@pytest.mark.parametrize(
    ("least", "told"),
    [
        (20000, "an arena of 28672 B is known failing by the data, and here it works"),
        (45000, "an arena of 40960 B is shipped by the data, and here it fails"),
    ],
)
def test_what_contradicts_measured_data_fails_with_both(least: int, told: str) -> None:
    band = band_of(NEW, data(NEW), least=least)
    assert band.exit_code == 1
    assert told in band.contradictions
    shown = text(band)
    assert f"contradiction: {told}" in shown
    assert data(NEW).source in shown
    assert "a real board SN1, library cff6f4dd32" in shown


def test_what_contradicts_reported_data_is_shown_and_fails_nothing() -> None:
    band = band_of(OLD, data(OLD))
    assert band.contradictions == ("an arena of 28672 B is shipped by the data, and here it fails",)
    assert band.exit_code == 0
    shown = text(band)
    assert "only reported: shown, and fails nothing" in shown
    assert data(OLD).source in shown
    assert "the sketch under test ships 40,960 B; the data says 28,672 B was shipped" in shown


def test_a_size_beyond_the_runner_is_inferred_and_said_to_be() -> None:
    band = band_of(OLD, data(OLD), limit=49152)
    row = band.rows[-1]
    assert row.size_bytes == 65536
    assert row.loads is True
    assert "loads (a smaller one does)" in text(band)
    unknown = band_of(OLD, data(OLD), limit=49152, least=70000)
    assert unknown.rows[-1].loads is None
    assert "beyond the runner's" in text(unknown)


def test_a_size_that_is_known_to_work_and_reaches_the_reservation_contradicts() -> None:
    known = replace(data(OLD), works_bytes=(65536,), untested_bytes=(), shipped_bytes=40960,
                    standing=Standing.MEASURED)  # fmt: skip
    band = band_of(OLD, known)
    assert band.contradictions == (
        (
            "an arena of 65536 B is known working by the data, and here the globals reach 5108 B"
            " into what the core reserves"
        ),
    )
    assert band.exit_code == 1
    assert "past the reservation at 65,536 B (computed)" in text(band)


def test_a_size_that_does_not_fit_ram_contradicts() -> None:
    known = replace(data(OLD), works_bytes=(131072,), shipped_bytes=40960)
    band = band_of(OLD, known)
    assert any("do not fit the board's RAM" in each for each in band.contradictions)


SIGNS = [
    ({"reserved": Region(BASE + 65536, BASE + 131072)}, "placed 5108 B of globals in the reserv"),
    ({"heap": Region(BASE + 65536, BASE + 80000)}, "malloc gave out 5108 B that are globals"),
    ({"stack": BASE + 66000}, "the stack stood at 0x200101d0, inside the globals"),
    ({"foreign_bytes": 3, "foreign_at": BASE}, "3 B of the pool's tail were written before setup"),
    (
        {"changed_bytes": 9, "changed": Region(BASE + 4, BASE + 99)},
        (
            "9 B of the pool's tail, which the model never uses, were written during the run, from"
            " 0x20000004 on"
        ),
    ),
]


@pytest.mark.parametrize(("changed", "told"), SIGNS)
def test_each_sign_of_an_overlap_is_a_finding(changed: dict[str, object], told: str) -> None:
    result = canary(**changed)  # type: ignore[arg-type]  # the keys are those of the class
    assert len(result.findings) == 1
    assert told in result.findings[0]
    shown = text(band_of(OLD, data(OLD), canaries=(result,)))
    assert told in shown
    assert "dangerous, not safe" in shown
    assert ">>> CORRECT!" in shown


def test_a_canary_that_saw_nothing_says_so_and_no_more() -> None:
    result = canary()
    assert result.findings == ()
    shown = text(band_of(OLD, data(OLD), canaries=(result,)))
    assert "no sign of an overlap in this run" in shown


def test_a_sketch_that_fell_silent_is_a_finding() -> None:
    result = CanaryResult(65536, image(65536), None, "the board fell silent", ())
    assert result.findings == ("the sketch did not come to its loop: the board fell silent",)
    assert not band_of(OLD, data(OLD), canaries=(result,)).rows[-1].safe


def test_a_canarys_finding_at_a_working_size_contradicts() -> None:
    result = canary(49152, changed_bytes=9, changed=Region(BASE + 4, BASE + 99))
    band = band_of(NEW, data(NEW), canaries=(result,))
    assert band.exit_code == 1
    assert "the canary found: 9 B of the pool's tail" in band.contradictions[0]


def test_what_a_board_printed_does_no_harm_to_a_terminal() -> None:
    evil = CanaryResult(65536, image(65536), None, "\x1b[2Jgone", ("\x1b]0;owned\x07",))
    band = band_of(OLD, data(OLD), canaries=(evil,), on=replace(ON, serial_number="\x1b[1m[red]"))
    shown = text(band)
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_the_band_is_data_too() -> None:
    plain = json.loads(json.dumps(as_json(band_of(OLD, data(OLD), canaries=(canary(),)))))
    assert plain["lower"] == {
        "smallest_bytes": 30150, "limit_bytes": 262144, "loads": 3, "how": "measured",
    }  # fmt: skip
    assert plain["upper"]["largest_bytes"] == 60428
    assert plain["upper"]["how"] == "computed"
    first = plain["sizes"][0]
    assert (first["expected"], first["outcome"]) == ("works", "fails")
    assert (first["requested_bytes"], first["available_bytes"]) == (180, 4)
    assert plain["sizes"][-1]["reach_bytes"] == 5108
    assert plain["exit_code"] == 0
