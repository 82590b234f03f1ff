from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.report.case_folder import LONGEST_NAME, safe_name, write_case
from harness.report.verdict import Diagnosis, Kind, Verdict

NODEID = "tests/hil/test_models.py::test_it_compiles[add-m33]"


@given(st.text())
def test_a_name_is_one_plain_file_name_of_bounded_length(nodeid: str) -> None:
    name = safe_name(nodeid)
    assert name not in (".", "..")
    assert "/" not in name
    assert name.isascii()
    assert name.isprintable()
    assert len(name) <= LONGEST_NAME + 7


def test_a_name_is_readable_and_one_for_each_id() -> None:
    assert safe_name(NODEID).startswith("tests_hil_test_models.py_test_it_compiles_add-m33-")
    assert safe_name("a/b") != safe_name("a_b")
    assert safe_name("x" * 300) != safe_name("x" * 301)


def test_a_test_that_passed_in_silence_leaves_nothing(tmp_path: Path) -> None:
    write_case(tmp_path, NODEID, said=(), verdict=Verdict(Kind.PASSED))
    assert list(tmp_path.iterdir()) == []


def test_words_and_diagnosis_are_kept(tmp_path: Path) -> None:
    verdict = Verdict(Kind.FAULT, Diagnosis("session", "silent", "cause", "reset it", ("line",)))
    write_case(tmp_path, NODEID, said=("boot", "-> go"), verdict=verdict)
    folder = tmp_path / "cases" / safe_name(NODEID)
    assert (folder / "serial.log").read_text() == "boot\n-> go\n"
    kept = json.loads((folder / "diagnosis.json").read_text())
    assert (kept["nodeid"], kept["verdict"]) == (NODEID, "fault")
    assert kept["diagnosis"]["evidence"] == ["line"]
