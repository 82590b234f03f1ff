"""Real runs on an emulated board, judged again without it, and packed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from harness import process
from harness.machine.config import how_to_configure, load_config
from harness.report.verdict import EXIT_FAILED, EXIT_PASSED
from tests.child_run import HIL, PYTEST, ROOT, ChildBench
from tests.documents import blocks, commands, text_of
from tests.unit.recorded_run import edit, renew

CASES = ROOT / "tests" / "emulated" / "fault_cases.py"
TIMEOUT_S = 1500.0
"""Without a warm cache the library is compiled first."""


@dataclass(frozen=True)
class Replayed:
    code: int
    result: dict[str, Any]

    def changed(self) -> list[dict[str, Any]]:
        return [each for each in self.result["cases"] if each["outcome"] == "changed"]


def replay(run: Path, *options: str) -> Replayed:
    words = (*HIL, "replay", str(run), "--json", *options)
    done = process.run(words, timeout_s=120, cwd=ROOT)
    assert done.stdout, done.stderr
    return Replayed(done.returncode, json.loads(done.stdout))


def copy(run: Path, target: Path) -> Path:
    done = process.run((sys.executable, "-c", _COPY, str(run), str(target)), timeout_s=60)
    assert done.ok, done.stderr
    return target


_COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2])"


@pytest.fixture(scope="module")
def kept() -> Iterator[Path]:
    """Where the runs of this module lie."""
    with TemporaryDirectory(prefix="hil-replay") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def faults(child_folder: Path, kept: Path) -> Path:
    """A run of cases that fail and fault on purpose."""
    child = ChildBench(child_folder, kept / "faults", {})
    words = (*PYTEST, str(CASES), "-q", "--hil-board=m33", f"--hil-out={child.out}")
    child.run((*words, "-k", "(wrong_output or failed_crash or test_fault) and not qemu_dies"))
    return child.out


@pytest.fixture(scope="module")
def passed(child_folder: Path, kept: Path) -> Path:
    """A run of the bench's own sketches, which needs no library."""
    child = ChildBench(child_folder, kept / "own", {})
    run = child.run((*HIL, "test", "m33", "--out", str(child.out), "-k", "test_own_sketches"))
    assert run.code == EXIT_PASSED, run.shown
    return child.out


@pytest.fixture(scope="module")
def models(child_folder: Path, kept: Path) -> Path:
    """A run of a model and an example on the real library."""
    if load_config().executorch is None:
        pytest.skip(how_to_configure())
    child = ChildBench(child_folder, kept / "models", {})
    words = (*HIL, "test", "m33", "--out", str(child.out))
    run = child.run((*words, "-k", "AddModel or (test_models and ds_cnn)"), timeout_s=TIMEOUT_S)
    assert run.code == EXIT_PASSED, run.shown
    return child.out


def test_failures_and_faults_are_found_again_word_for_word(faults: Path) -> None:
    again = replay(faults, "--tests", str(CASES))
    assert again.code == EXIT_PASSED, again.changed()
    assert again.result["counts"] == {"same": 9, "changed": 0, "not judged": 0}
    kinds = {each["recorded"]["verdict"] for each in again.result["cases"]}
    assert kinds == {"failed", "fault"}


def test_own_sketches_are_judged_by_what_they_printed(passed: Path, tmp_path: Path) -> None:
    again = replay(passed)
    assert (again.code, again.result["counts"]["same"]) == (EXIT_PASSED, 2)
    forged = copy(passed, tmp_path / "forged")
    edit(forged / "serial" / "serial.rx.bin", b"constructors=abc", b"constructors=abd")
    renew(forged)
    (case,) = (wrong := replay(forged)).changed()
    assert wrong.code == EXIT_FAILED
    assert "conformance" in case["nodeid"]
    assert "the recording ends before" in case["replayed"]["diagnosis"]["symptom"]


def test_a_wrong_value_is_the_devices_failure(passed: Path, tmp_path: Path) -> None:
    forged = copy(passed, tmp_path / "forged")
    rx = forged / "serial" / "serial.rx.bin"
    said = rx.read_bytes()
    line = next(each for each in said.split(b"\r\n") if each.startswith(b"int_least="))
    edit(rx, line, line[:-1] + (b"7" if line[-1:] != b"7" else b"8"))
    renew(forged)
    (case,) = replay(forged).changed()
    assert case["replayed"]["verdict"] == "failed"
    assert "printed and expected" in case["replayed"]["diagnosis"]["symptom"]


def test_what_was_packed_is_judged_as_before(passed: Path, tmp_path: Path) -> None:
    target = tmp_path / "sent.zip"
    done = process.run((*HIL, "pack", str(passed), "--out", str(target)), timeout_s=120, cwd=ROOT)
    assert done.ok, done.stderr
    assert "serial: 1 name(s) replaced" in done.stdout
    again = replay(target)
    assert (again.code, again.result["counts"]["same"]) == (EXIT_PASSED, 2)


@pytest.mark.timeout(TIMEOUT_S)
def test_a_model_is_judged_by_the_goldens_that_travel_with_it(models: Path, tmp_path: Path) -> None:
    again = replay(models)
    assert again.code == EXIT_PASSED, again.changed()
    assert again.result["counts"] == {"same": 6, "changed": 0, "not judged": 0}
    forged = copy(models, tmp_path / "forged")
    golden = next(forged.glob("models/ds_cnn-*/cases/*.out"))
    golden.write_bytes(bytes(each ^ 0x40 for each in golden.read_bytes()))
    renew(forged)
    wrong = replay(forged)
    assert wrong.code == EXIT_FAILED
    (case,) = wrong.changed()
    assert case["nodeid"].endswith("test_its_output_is_right[ds_cnn]")
    assert "wrong output: model 'ds_cnn'" in case["replayed"]["diagnosis"]["symptom"]


@pytest.mark.timeout(TIMEOUT_S)
def test_a_compile_command_and_the_versions_travel(models: Path) -> None:
    record = json.loads((models / "run.json").read_text(encoding="utf-8"))
    firmware = [each for case in record["cases"] for each in case["firmware"]]
    assert {each["sketch"] for each in firmware} == {"AddModel", "runner"}
    assert all("compile" in each["command"] and len(each["key"]) == 64 for each in firmware)
    assert set(record["tools"]) == {"arduino-cli", "arm-none-eabi-g++", "qemu-system-arm"}
    assert record["provenance"]["library"]["commit"]


def test_the_readmes_commands_pack_and_replay(passed: Path, tmp_path: Path) -> None:
    (block,) = (each for each in blocks(text_of("README.md"), "sh") if "hil pack DIR" in each)
    replays, packs = (each.split()[1:] for each in commands(block))
    packed = tmp_path / "packed.zip"
    for words, target in ((replays, passed), (packs, passed), (replays, packed)):
        more = ["--out", str(packed)] if words is packs else []
        argv = [*HIL, *(str(target) if word == "DIR" else word for word in words), *more]
        done = process.run(argv, timeout_s=120, cwd=ROOT)
        assert done.ok, done.stdout + done.stderr
        assert done.stdout
