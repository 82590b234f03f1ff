"""Folders that are no run, damaged ones, and those that somebody made on purpose."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.evidence import command, recording
from harness.evidence.plain import MAX_JSON_BYTES, Damaged, read_plain
from harness.evidence.recording import read_recording
from harness.evidence.run_folder import open_run
from harness.storage.unzip import Limits
from tests.unit.recorded_run import Recorder, edit, failing, passing, renew


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with a passing and a failing case."""
    recorder = Recorder(tmp_path / "run")
    passing(recorder)
    failing(recorder)
    return recorder.finish()


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def case_file(folder: Path) -> Path:
    return next(folder.glob("cases/*answers*/case.json"))


def test_a_run_is_read_in_the_order_of_its_cases(folder: Path) -> None:
    run = open_run(folder)
    assert [case.nodeid.partition("::")[2] for case in run.cases] == ["test_answers", "test_waits"]
    assert [case.verdict for case in run.cases] == ["passed", "failed"]
    assert run.remarks == ()
    assert run.without_log == ()
    way = [entry.way for entry in run.recording.entries]
    assert (way.count("rx"), way.count("tx")) == (4, 1)


def test_a_folder_of_something_else_is_the_callers_mistake(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("words")
    with pytest.raises(UsageError, match="is not the folder of a run"):
        open_run(tmp_path)
    with pytest.raises(UsageError, match="is no folder"):
        open_run(tmp_path / "notes.txt")


def test_every_damaged_file_is_named(folder: Path) -> None:
    rx = folder / "serial" / "serial.rx.bin"
    data = bytearray(rx.read_bytes())
    data[3] ^= 1
    rx.write_bytes(data)
    case_file(folder).unlink()
    index = folder / "serial" / "serial.jsonl"
    index.write_bytes(index.read_bytes()[:-5])
    with pytest.raises(Damaged) as error:
        open_run(folder)
    assert [line.partition(": ")[2] for line in error.value.evidence if "rx.bin" in line] == [
        "its content is not what was written"
    ]
    assert len(error.value.evidence) == 3
    assert error.value.evidence[0].endswith("case.json: missing")
    assert "serial.jsonl" in error.value.message


def test_what_was_added_later_is_said_and_a_link_is_not_followed(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "notes.txt").write_text("mine")
    assert open_run(folder).remarks == ("'notes.txt' is not of the run: it was added later",)
    secret = tmp_path / "secret"
    secret.write_bytes((folder / "serial" / "serial.tx.bin").read_bytes())
    (folder / "serial" / "serial.tx.bin").unlink()
    (folder / "serial" / "serial.tx.bin").symlink_to(secret)
    with pytest.raises(Damaged) as error:
        open_run(folder)
    assert error.value.evidence == ("serial/serial.tx.bin: is a link",)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda run: run.update(files=[]), "is no JSON object but of type 'list'"),
        (lambda run: run["files"].update(x=3), "is no JSON object but of type 'int'"),
        (lambda run: run["files"].update(x={"bytes": -1, "sha256": ""}), "'bytes' is a count"),
        (lambda run: run["files"].update(x={"bytes": 1, "sha256": "../x"}), "has no SHA-256"),
        (lambda run: run["files"].update({"../x": {"bytes": 1, "sha256": "0" * 64}}), "../x"),
        (lambda run: run.update(cases="many"), "'cases' is a list"),
        (lambda run: run["cases"][0].update(verdict="failed"), "says 'failed' of .* 'passed'"),
    ],
)
def test_a_record_of_another_shape_is_damaged(
    folder: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    rewrite(folder / "run.json", change)
    with pytest.raises(Damaged, match=sentence):
        open_run(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda case: case.update(nodeid=None), "'nodeid' is text"),
        (lambda case: case.update(transcript={"from": "0"}), "'from' is a count"),
        (lambda case: case.update(made=["x"]), r"made\[0\] is no JSON object"),
        (lambda case: case.update(diagnosis="why"), "diagnosis is no JSON object"),
    ],
)
def test_a_case_of_another_shape_is_damaged(
    folder: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    rewrite(case_file(folder), change)
    renew(folder)
    with pytest.raises(Damaged, match=sentence):
        open_run(folder)


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 100, b"[" * 100_000, b'{"a":' * 50_000, b"\xff{}", b"nul"]
)
def test_what_is_no_json_is_damaged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(Damaged, match="is not JSON"):
        read_plain(tmp_path / "x", "x")


def test_a_file_is_not_read_without_end(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as stream:
        stream.truncate(MAX_JSON_BYTES + 1)
    with pytest.raises(Damaged, match="is larger than"):
        read_plain(tmp_path / "x", "x")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([{"at_s": 1, "direction": "rx", "offset": 1, "bytes": 1}], "begins at byte 1 of rx"),
        ([{"at_s": 1, "direction": "up", "offset": 0, "bytes": 1}], "has the direction 'up'"),
        ([{"at_s": 1, "direction": "rx", "offset": 0, "bytes": 9}], "index speaks of 9"),
        ([{"at_s": 2, "mark": "a"}, {"at_s": 1, "mark": "b"}], "goes back in time"),
        ([{"at_s": float("nan"), "mark": "a"}], "a time in seconds"),
        ([{"at_s": True, "mark": "a"}], "a time in seconds"),
        ([{"at_s": 1, "mark": ["a"]}], "'mark' is text"),
        ([], "has 4 B that the index does not know"),
    ],
)
def test_an_index_that_does_not_fit_its_bytes_is_damaged(
    tmp_path: Path, lines: list[dict[str, object]], sentence: str
) -> None:
    (tmp_path / "serial.rx.bin").write_bytes(b"four")
    (tmp_path / "serial.tx.bin").write_bytes(b"")
    text = "".join(json.dumps(each) + "\n" for each in [{"transcript": 1}, *lines])
    (tmp_path / "serial.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(Damaged, match=sentence):
        read_recording(tmp_path, whole=True)


def test_a_line_of_ten_megabytes_is_refused_and_one_of_the_board_is_not(tmp_path: Path) -> None:
    (tmp_path / "serial.tx.bin").write_bytes(b"")
    said = b"x" * (10 * 1024 * 1024)
    (tmp_path / "serial.rx.bin").write_bytes(said)
    entry = {"at_s": 0, "direction": "rx", "offset": 0, "bytes": len(said)}
    index = tmp_path / "serial.jsonl"
    index.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    found = read_recording(tmp_path, whole=True)
    assert found.data(found.entries[0]) == said
    index.write_bytes(b'{"at_s": 0, "mark": "' + said + b'"}\n')
    with pytest.raises(Damaged, match="has a line of over"):
        read_recording(tmp_path, whole=True)


def test_an_index_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_ENTRIES", 3)
    for name in ("serial.rx.bin", "serial.tx.bin"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "serial.jsonl").write_text('{"at_s": 0, "mark": "a"}\n' * 4, encoding="utf-8")
    with pytest.raises(Damaged, match="has more than 3 lines"):
        read_recording(tmp_path, whole=True)


def test_a_killed_run_may_lack_the_times_of_its_last_bytes(folder: Path) -> None:
    (folder / "run.json").unlink()
    with (folder / "serial" / "serial.rx.bin").open("ab") as stream:
        stream.write(b"last words")
    assert open_run(folder).remarks == ("the last 10 B of rx have no time: the run was killed",)
    edit(
        folder / "serial" / "serial.jsonl", b'"offset": 0, "bytes": 23', b'"offset": 0, "bytes": 22'
    )
    with pytest.raises(Damaged, match="begins at byte 23 of rx, not at 22"):
        open_run(folder)


def zipped(path: Path, members: dict[str, bytes], *, mode: int = 0o100644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return path


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"../run.json": b"{}"}, "which leaves its folder"),
        ({"/run.json": b"{}"}, "which leaves its folder"),
        ({"a/../../run.json": b"{}"}, "which leaves its folder"),
        ({"run.json": b"{}", "RUN.JSON": b"{}"}, "one name on some systems"),
        ({"notes.txt": b"mine"}, "holds no run"),
        ({"a/run.json": b"{}", "b/run.json": b"{}"}, "holds 2 runs"),
    ],
)
def test_a_zip_that_is_no_packed_run_is_refused(
    tmp_path: Path, members: dict[str, bytes], sentence: str
) -> None:
    path = zipped(tmp_path / "x.zip", members)
    with pytest.raises(UsageError, match=sentence), command._opened(path):
        pass
    assert not (tmp_path.parent / "run.json").exists()


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"run.json": b"/etc/passwd"}, mode=0o120777)
    with pytest.raises(UsageError, match="holds a link"), command._opened(path):
        pass


def test_a_zip_that_grows_without_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "LIMITS", Limits(total_bytes=1024 * 1024))
    path = zipped(tmp_path / "x.zip", {"run.json": bytes(2 * 1024 * 1024)})
    sentence = "unpacks to more than 1048576 bytes"
    with pytest.raises(UsageError, match=sentence), command._opened(path):
        pass


def test_a_zip_that_was_cut_short_is_damaged(folder: Path, tmp_path: Path) -> None:
    whole = zipped(tmp_path / "x.zip", {"run.json": (folder / "run.json").read_bytes() * 50})
    whole.write_bytes(whole.read_bytes()[:-40])
    sentence = "is damaged or of an unknown kind"
    with pytest.raises(Damaged, match=sentence), command._opened(whole):
        pass
