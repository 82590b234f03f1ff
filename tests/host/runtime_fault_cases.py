"""Faults that need a runtime: the wheel's, on the host board.  Run by test_faults_runtime.py."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.model.artifact import ModelArtifact
from harness.model.header import header_text
from harness.pipeline import Bench
from harness.report.expectation import require_golden
from harness.runner.client import Runner
from harness.runner.inference import greet, infer
from harness.storage.digest import bytes_digest

ONE, TWO = b"\x00\x00\x80\x3f", b"\x00\x00\x00\x40"


@pytest.mark.parametrize("model", ["add"], indirect=True)
def test_failed_arena_too_small(runner: Runner, model: ModelArtifact) -> None:
    assert model.name == "add"
    least = runner.load(runner.info.arena_limit_bytes).high_water_bytes
    # A third: one byte less may crash the runtime instead, where it does not check.
    runner.load(least // 3)


@pytest.mark.parametrize("model", ["add"], indirect=True)
def test_failed_wrong_output(bench: Bench, model: ModelArtifact, tmp_path: Path) -> None:
    """A weight that changed after the export: nothing but the answer tells."""
    program = model.pte.read_bytes()
    assert program.count(ONE) == 1, "the program's one constant is 1.0"
    spoilt = tmp_path / "model.pte"
    spoilt.write_bytes(program.replace(ONE, TWO))
    header = tmp_path / "model.h"
    header.write_text(header_text(spoilt.read_bytes(), title="x + 2"), encoding="utf-8")
    changed = replace(model, pte=spoilt, header=header, digest=bytes_digest(spoilt.read_bytes()))
    firmware = bench.runner(changed)
    runner = greet(bench.boot(firmware), firmware.nonce, changed)
    runner.load(runner.info.arena_limit_bytes)
    require_golden(model, model.cases[0], infer(runner, changed, changed.cases[0]).outputs)


@pytest.mark.parametrize("model", ["add"], indirect=True)
def test_fault_earlier_model(bench: Bench, model: ModelArtifact) -> None:
    """The runner of a later build is asked for, and that of an earlier one answers."""
    session = bench.boot(bench.runner(model))
    greet(session, "0123456789abcdef", model)
