"""Upstream's three example sketches, unmodified: what they print is what a real board prints."""

from __future__ import annotations

import pytest

from harness.arduino.build import Firmware
from harness.arduino.footprint import check_budget
from harness.arduino.sketch import Sketch
from harness.arena.pool import find_pool, with_pool
from harness.boards.board import Lane, Standing
from harness.errors import CapabilityMissing, DutFailure
from harness.model.export import ModelArtifact
from harness.pipeline import Bench
from harness.report.expectation import (
    require_arena_shortfall,
    require_equal,
    require_near,
    values,
)
from harness.report.observation import (
    added_vector,
    detected_keyword,
    keyword_scores,
    load_failure,
    method_count,
)
from harness.report.run_record import Measurement
from harness.serial.session import Session

BANNERS = {
    "AddModel": "=== ExecuTorch Add Model ===",
    "HelloExecuTorch": "=== HelloExecuTorch ===",
    "KeywordSpotting": "=== ExecuTorch Keyword Spotting ===",
}
SHIPPED_LOGIT = 8.95
"""Of the model that the example ships, on a real Uno Q: the library's README."""

ANSWER_TIMEOUT_S = 60.0
"""Virtual boards answer in under a second; a real one waits 3 s before its first line."""


@pytest.fixture(params=BANNERS)
def example(request: pytest.FixtureRequest) -> str:
    """Name of one of the library's examples."""
    name: str = request.param
    return name


@pytest.fixture
def keyword_spotting(bench: Bench) -> tuple[Sketch, ModelArtifact | None]:
    """KeywordSpotting, and the model that replaced its own where that is for another core."""
    return bench.suited_example("KeywordSpotting", "keyword_spotting")


@pytest.fixture
def firmware(bench: Bench, example: str, request: pytest.FixtureRequest) -> Firmware:
    """The unmodified example, compiled: the board still runs whatever it ran before."""
    if example == "KeywordSpotting":
        spotter: Sketch = request.getfixturevalue("keyword_spotting")[0]
        return bench.firmware(spotter)
    return bench.firmware(bench.example(example))


def start(bench: Bench, firmware: Firmware) -> Session:
    """Flash an example and wait for its banner: what an earlier firmware still printed is past."""
    dut = bench.boot(firmware)
    dut.expect_exact(BANNERS[firmware.sketch], timeout_s=ANSWER_TIMEOUT_S)
    return dut


def said(dut: Session) -> str:
    """What came before the last match, and the match."""
    assert isinstance(dut.after, bytes), "something was expected and matched"
    return (dut.before + dut.after).decode("utf-8", "replace")


def golden_logit(model: ModelArtifact, label: str) -> tuple[float, float]:
    """The exported program's own logit of ``label`` for its recording, and what it may be off:
    one step of the output's scale, and half a digit of what the sketch prints.
    """
    case = next(each for each in model.cases if each.label == label)
    logits = values(case.output_path.read_bytes(), model.outputs[0])
    return logits[model.labels.index(label)], model.output_lsb + 0.005


def test_it_compiles_and_fits(bench: Bench, firmware: Firmware, measurement: Measurement) -> None:
    measurement.flash_bytes = firmware.footprint.flash_bytes
    measurement.ram_bytes = firmware.footprint.ram_bytes
    budget = bench.request.core_version.budget(firmware.sketch)
    if budget is None and bench.board.lane is Lane.HOST:
        # Its ceilings were checked when it was built, and a computer's flash has no budget.
        return
    if budget is None:
        raise CapabilityMissing(
            f"board {bench.board.name!r} has no budget for {firmware.sketch!r}",
            remedy=f"add a [[core_version.budget]] to {bench.board.path.name}",
        )
    check_budget(firmware.footprint, budget)


def test_it_answers_right(
    bench: Bench,
    firmware: Firmware,
    example: str,
    measurement: Measurement,
    request: pytest.FixtureRequest,
) -> None:
    dut = start(bench, firmware)
    if example == "AddModel":
        dut.expect(r"\[1,2,3\] \+ 1 = \[[^\]]*\]\r?\n", timeout_s=ANSWER_TIMEOUT_S)
        answer = added_vector(said(dut))
        measurement.output = str(answer)
        require_equal("AddModel's answer", answer, (2.0, 3.0, 4.0))
    elif example == "HelloExecuTorch":
        dut.expect(r"Methods: \d+\r?\n", timeout_s=ANSWER_TIMEOUT_S)
        methods = method_count(said(dut))
        measurement.output = f"{methods} method"
        require_equal("the number of methods", methods, 1)
    else:
        dut.expect("=== DONE ===", timeout_s=ANSWER_TIMEOUT_S)
        scores, heard = keyword_scores(said(dut)), detected_keyword(said(dut))
        measurement.output = f"{heard}, logit {scores.get('yes')}"
        require_equal("the detected keyword", heard, "yes")
        lowered: ModelArtifact | None = request.getfixturevalue("keyword_spotting")[1]
        if lowered is None:
            require_equal("the logit of 'yes'", scores.get("yes"), SHIPPED_LOGIT)
        else:
            note = (
                f"with a model lowered for {lowered.target.label}, as its own is for another core"
            )
            measurement.notes.append(note)
            measurement.output += f" ({lowered.target.label} model)"
            require_near("the logit of 'yes'", scores.get("yes"), *golden_logit(lowered, "yes"))


@pytest.mark.hil_subject("KeywordSpotting")
@pytest.mark.parametrize("side", ["works", "fails"])
def test_its_arena_is_bounded_below(
    bench: Bench,
    side: str,
    measurement: Measurement,
    keyword_spotting: tuple[Sketch, ModelArtifact | None],
) -> None:
    band = bench.request.core_version.arena("KeywordSpotting")
    unmodified = keyword_spotting[0]
    if band is None:
        raise CapabilityMissing(
            f"board {bench.board.name!r} has no arena band for KeywordSpotting",
            remedy=f"add a [[core_version.arena]] to {bench.board.path.name}",
        )
    pool = find_pool(unmodified)
    sizes = band.works_bytes if side == "works" else band.fails_bytes
    if not sizes:
        raise CapabilityMissing(
            f"the data of board {bench.board.name!r} knows no arena of KeywordSpotting that {side}"
            f" on core {bench.request.core_version.version}",
            remedy=f"measure the band with 'hil arena {bench.board.name} --record'",
        )
    if side == "works":
        measurement.arena_bytes = pool.size_bytes
    for size in sizes:
        dut = start(bench, bench.firmware(with_pool(unmodified, pool, size)))
        number = dut.expect(
            [">>> Detected: yes", r"failed \(0x[0-9a-f]+\)\r?\n"], timeout_s=ANSWER_TIMEOUT_S
        )
        worked = number == 0
        if not worked:
            require_arena_shortfall(load_failure(said(dut)), arena_bytes=size)
        if worked == (side == "works"):
            continue
        told = (
            f"an arena of {size} B {'works' if worked else 'fails'}, and the board's data says that"
            f" it {side} ({band.standing.value}: {band.source})"
        )
        if band.standing is Standing.MEASURED:
            raise DutFailure(
                told,
                remedy="library or model need another arena than before: measure the band anew with"
                f" 'hil arena {bench.board.name}'",
            )
        measurement.notes.append(told)
