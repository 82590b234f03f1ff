from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BenchError
from harness.model.export import ExportTarget, TensorSpec, read_artifact

PROGRAM = b"a program"


def record(**changes: Any) -> dict[str, Any]:
    tensor = {"dtype": "float32", "sizes": [1, 3, 4, 4], "dim_order": [0, 2, 3, 1]}
    return {
        "name": "resnet8",
        "title": "ResNet-8",
        "cpu": "m33",
        "digest": hashlib.sha256(PROGRAM).hexdigest(),
        "inputs": [tensor],
        "outputs": [tensor],
        "output_lsb": 0.5,
        "tolerance": 0.0,
        "labels": ["cat"],
        "cases": [{"name": "seed_1", "seed": 1, "label": None, "expected_class": None}],
        "arena_hint_bytes": 1024,
        "provenance": {"torch": "2.14.1"},
        **changes,
    }


def write(folder: Path, text: str) -> Path:
    (folder / "model.pte").write_bytes(PROGRAM)
    (folder / "artifact.json").write_text(text, encoding="utf-8")
    return folder


def test_an_artifact_is_read_back(tmp_path: Path) -> None:
    artifact = read_artifact(write(tmp_path, json.dumps(record())))
    assert artifact.target == ExportTarget("cortex-m", "m33")
    assert artifact.target.label == "cortex-m33"
    assert artifact.inputs == (TensorSpec("float32", (1, 3, 4, 4), (0, 2, 3, 1)),)
    assert artifact.inputs[0].nbytes == 192
    assert artifact.cases[0].input_path == tmp_path / "cases/seed_1.in"
    assert artifact.cases[0].output_path == tmp_path / "cases/seed_1.out"
    assert artifact.labels == ("cat",)


def test_no_core_is_the_portable_target(tmp_path: Path) -> None:
    artifact = read_artifact(write(tmp_path, json.dumps(record(cpu=None))))
    assert artifact.target == ExportTarget("portable")
    assert artifact.target.label == "portable"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1', "null"])
def test_an_unreadable_record_is_the_benchs_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(BenchError, match="is unreadable"):
        read_artifact(write(tmp_path, text))


def test_a_changed_program_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, json.dumps(record()))
    (tmp_path / "model.pte").write_bytes(b"a pr0gram")
    with pytest.raises(BenchError, match="is not the program that was exported"):
        read_artifact(tmp_path)


@pytest.mark.parametrize(("kind", "cpu"), [("portable", "m33"), ("cortex-m", None)])
def test_a_target_has_a_core_exactly_when_it_is_lowered_for_one(kind: Any, cpu: Any) -> None:
    with pytest.raises(ValueError, match="cannot have the core"):
        ExportTarget(kind, cpu)
