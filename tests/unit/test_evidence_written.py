"""What a run writes so that it can be judged again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.arduino.build import Firmware
from harness.arduino.footprint import Footprint
from harness.errors import UsageError
from harness.machine.requirement import QEMU
from harness.model.artifact import ModelArtifact, read_artifact
from harness.report import run_record, tool_versions
from harness.report.case_log import CaseLog
from harness.report.run_record import RunRecord, claim
from harness.serial.transcript import open_transcript
from tests.unit.test_model_artifact import record as artifact_record
from tests.unit.test_model_artifact import write as write_artifact


@pytest.fixture
def artifact(tmp_path: Path) -> ModelArtifact:
    """A model in a cache, with the header that a run does not need."""
    folder = tmp_path / "cache"
    (folder / "cases").mkdir(parents=True)
    write_artifact(folder, json.dumps(artifact_record()))
    (folder / "model.h").write_text("the program again")
    for suffix in ("in", "out"):
        (folder / "cases" / f"seed_1.{suffix}").write_bytes(suffix.encode())
    return read_artifact(folder)


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    made = RunRecord("m33", "emulated", "0.1.0", ("hil", "test"), tmp_path / "run")
    made.current = CaseLog("test_x", None)
    return made


def firmware() -> Firmware:
    return Firmware(
        "adder", "m33", "0.1.0", "ab" * 32, "abab", Path("x"), Path("x/y.elf"),
        Footprint(1, 2, 3, 4), ("arduino-cli", "compile"), "/lib", cached=True,
    )  # fmt: skip


def test_what_a_case_was_given_is_kept_in_order(record: RunRecord, artifact: ModelArtifact) -> None:
    assert record.current is not None
    record.made("example", ("AddModel", artifact))
    record.made("example", ("Hello", None))
    record.made("model", artifact)
    record.made("firmware", firmware())
    kinds = [each["kind"] for each in record.current.made]
    assert kinds == ["example", "example", "model", "firmware"]
    assert record.current.made[0]["model"] == "models/resnet8-cortex-m33"
    assert record.current.made[1]["model"] is None
    assert record.current.firmware[0]["command"] == ["arduino-cli", "compile"]
    kept = read_artifact(record.folder / "models" / "resnet8-cortex-m33")
    assert kept.digest == artifact.digest
    assert kept.cases[0].output_path.read_bytes() == b"out"
    assert not kept.header.exists()


def test_a_kind_that_nobody_records_is_refused(record: RunRecord) -> None:
    with pytest.raises(UsageError, match="keeps no 'firmware' of type 'str'"):
        record.made("firmware", "adder")


def test_a_model_that_cannot_be_kept_is_a_warning_and_no_fault(
    record: RunRecord, artifact: ModelArtifact
) -> None:
    record.folder.mkdir()
    (record.folder / "models").write_text("in the way")
    record.made("model", artifact)
    record.made("model", artifact)
    (warning,) = record.warnings
    assert warning.startswith("model 'resnet8' could not be kept for a replay:")


def test_a_golden_changed_in_the_cache_is_kept_as_it_was_used(
    record: RunRecord, artifact: ModelArtifact
) -> None:
    record.made("model", artifact)
    kept = record.folder / "models" / "resnet8-cortex-m33" / "model.pte"
    kept.write_bytes(b"of another run")
    record.made("model", artifact)
    assert kept.read_bytes() == artifact.pte.read_bytes()


def test_a_run_says_first_what_it_is_and_who_is_private(
    record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("harness.report.run_record.getpass.getuser", nobody)
    record.begin()
    begun = json.loads((record.folder / run_record.BEGUN).read_text())
    assert (begun["board"], begun["core_version"]) == ("m33", "0.1.0")
    assert begun["private"]["user"] == ""
    assert begun["private"]["home"]


def test_nothing_of_an_earlier_run_is_left(record: RunRecord, artifact: ModelArtifact) -> None:
    record.begin()
    record.made("model", artifact)
    (record.folder / "cases" / "x").mkdir(parents=True)
    (record.folder / "cases" / "x" / "case.json").write_text("{}")
    (record.folder / "mine.txt").write_text("kept")
    claim(record.folder)
    left = {path.name for path in record.folder.rglob("*") if path.is_file()}
    assert left == {"mine.txt", run_record.RESERVE}


def test_a_tool_is_asked_once_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "qemu-system-arm"
    program.write_text("#!/bin/sh\necho asked >> $0.log\necho QEMU emulator version 9.1.2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(tool_versions, "_OF_LANE", {"emulated": (QEMU,)})
    for _ in range(2):
        found = tool_versions.tool_versions("emulated")["qemu-system-arm"]
        assert found == {"path": str(program), "version": "9.1.2"}
    assert (folder / "qemu-system-arm.log").read_text() == "asked\n"
    program.write_text(program.read_text().replace("9.1.2", "10.0.12"))
    assert tool_versions.tool_versions("emulated")["qemu-system-arm"]["version"] == "10.0.12"


def test_a_memory_of_another_shape_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_CACHE", str(tmp_path))
    memory = tmp_path / "digest" / "tools.json"
    memory.parent.mkdir()
    memory.write_text("[1]")
    tool_versions.tool_versions("hardware")
    assert isinstance(json.loads(memory.read_text()), dict)


def test_a_mark_has_its_place_between_the_bytes(tmp_path: Path) -> None:
    transcript = open_transcript(tmp_path)
    transcript.append("rx", b"four")
    transcript.mark("boot", {"firmware": "ab"})
    transcript.append("tx", b"x")
    transcript.mark("case_end", {})
    transcript.close()
    lines = [json.loads(line) for line in (tmp_path / "serial.jsonl").read_text().splitlines()]
    assert [(each["mark"], each["rx"], each["tx"]) for each in lines if "mark" in each] == [
        ("boot", 4, 0),
        ("case_end", 4, 1),
    ]
    assert transcript.entries == len(lines) == 5
