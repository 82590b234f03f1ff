"""A packed run says what it said before, of nobody in particular."""

from __future__ import annotations

import json
import mmap
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.evidence import pack as packing
from harness.evidence import private_names
from harness.evidence.frames import mend_frames
from harness.evidence.pack import REDACTED, Packed, pack
from harness.evidence.plain import Damaged
from harness.evidence.redaction import Redactor, Secrets
from harness.evidence.run_folder import open_run
from harness.runner.protocol import encode_record
from harness.runner.record_stream import Damage, ReceivedRecord, RecordStream
from harness.storage.digest import tree_digest
from tests.unit.recorded_run import Recorder, failing, passing, renew
from tests.unit.test_evidence_replay import replay, tests

__all__ = ["tests"]

ALICE = Secrets(
    homes=frozenset({"/home/alice"}),
    users=frozenset({"alice", "jörg", "root", "al"}),
    hosts=frozenset({"workbench.example.org", "workbench"}),
    serials=frozenset({"SN12345678", "2E5A"}),
)


@pytest.fixture(autouse=True)
def _somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs these tests, the run was Alice's."""
    who = {"user": "alice", "home": "/home/alice", "host": "workbench.example.org"}
    monkeypatch.setattr("harness.report.run_record.private_names", lambda: who)
    nobody = {"user": "", "home": "", "host": ""}
    monkeypatch.setattr(private_names, "private_names", lambda: nobody)


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    words = ("hil", "test", "m33", "--serial-number=OPTION77", "--out", "/home/alice/out")
    return Recorder(tmp_path / "run", command=words)


@pytest.fixture
def folder(recorder: Recorder) -> Path:
    """Alice's run, in which the board knows her, too."""
    passing(recorder)
    recorder.rx(
        b"built by alice in /home/alice/lib/x.cpp on workbench, board SN12345678 \xff\xfe\0\n"
    )
    recorder.rx(encode_record("ff", 1, "load", {"msg": "/home/alice/lib/x.cpp:12 failed"}))
    recorder.transcript.mark("call", {"argv": ["adb", "-s", "ADB4711", "-s", "/opt/openocd"]})
    failing(recorder)
    (recorder.folder / "junit.xml").write_text('<testsuite hostname="workbench.example.org"/>')
    return recorder.finish()


def content(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {each: archive.read(each) for each in archive.namelist()}


def unpacked(path: Path, target: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(target)
    return target


def packed(folder: Path, **options: bool) -> tuple[Packed, dict[str, bytes]]:
    target = folder.parent / "packed.zip"
    done = pack(folder, target, **options)
    return done, content(target)


def test_no_private_name_is_left_in_any_file_and_the_original_is_untouched(folder: Path) -> None:
    before = tree_digest(folder)
    done, files = packed(folder)
    assert tree_digest(folder) == before
    for name, data in files.items():
        for secret in (b"alice", b"workbench", b"SN12345678", b"OPTION77", b"ADB4711"):
            assert secret not in data, name
    assert b"/opt/openocd" in files["serial/serial.jsonl"]
    said = files["serial/serial.rx.bin"]
    assert len(said) == (folder / "serial" / "serial.rx.bin").stat().st_size
    assert b"built by U1xxx in /HOME-1xxxx/lib/x.cpp on HOST-2xxx, board SERIAL-2xx" in said
    assert b" \xff\xfe\0\n" in said
    assert {"home", "user", "host", "serial"} == set(done.distinct)


def test_what_was_replaced_is_counted_by_file_and_kind_and_never_told(folder: Path) -> None:
    done, files = packed(folder)
    told: dict[str, Any] = json.loads(files[REDACTED])
    assert told["files"]["serial/serial.rx.bin"] == {"home": 2, "host": 1, "serial": 1, "user": 1}
    assert told["kinds"]["serial"]["names"] == 3
    assert (
        sum(each["serial"] for each in told["files"].values() if "serial" in each)
        == (told["kinds"]["serial"]["places"])
    )
    assert told["records_with_new_checksum"] == 1
    assert any("serial/serial.rx.bin: home 2" in line for line in done.lines())


def test_a_packed_run_is_whole_and_replays_as_before(
    folder: Path,
    tests: Path,
    tmp_path: Path,
) -> None:
    packed(folder)
    result = replay(folder.parent / "packed.zip", tests)
    assert result.json["counts"] == {"same": 2, "changed": 0, "not judged": 0}, result.out
    assert result.code == 0
    run = open_run(unpacked(folder.parent / "packed.zip", tmp_path / "again"))
    assert run.remarks == ()
    assert run.begun.content["private"] == {}


def test_the_same_run_packs_to_the_same_bytes(folder: Path) -> None:
    first, second = (folder.parent / name for name in ("a.zip", "b.zip"))
    pack(folder, first)
    pack(folder, second)
    assert first.read_bytes() == second.read_bytes()
    assert not [each for each in folder.parent.iterdir() if each.name.startswith(".hil")]


def test_serial_numbers_stay_where_that_is_asked_for(folder: Path) -> None:
    done, files = packed(folder, keep_serials=True)
    assert b"SN12345678" in files["serial/serial.rx.bin"]
    assert b"OPTION77" in files["run.json"]
    assert "serial" not in done.distinct


def test_a_record_with_a_private_name_keeps_a_right_checksum(folder: Path) -> None:
    _, files = packed(folder)
    items = RecordStream().feed(files["serial/serial.rx.bin"])
    (record,) = [each.record for each in items if isinstance(each, ReceivedRecord)]
    assert record.text("msg") == "/HOME-1xxxx/lib/x.cpp:12 failed"
    assert not [each for each in items if isinstance(each, Damage)]


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[mmap.mmap]:
    path = tmp_path / "rx"
    path.write_bytes(b"@hil {alice}*0000\n@hil {}")
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as data:
        yield data


def test_a_record_that_was_damaged_before_stays_damaged(mapped: mmap.mmap) -> None:
    assert mend_frames(mapped, [(6, 11)]).bodies == ()


def test_models_are_left_byte_for_byte_and_said_so(folder: Path) -> None:
    model = folder / "models" / "add-portable"
    model.mkdir(parents=True)
    (model / "model.pte").write_bytes(b"\0/home/alice/model.py\0")
    (model / "artifact.json").write_text('{"from": "/home/alice"}')
    renew(folder)
    done, files = packed(folder)
    assert files["models/add-portable/model.pte"] == b"\0/home/alice/model.py\0"
    assert b"alice" not in files["models/add-portable/artifact.json"]
    told = json.loads(files[REDACTED])
    assert told["left_as_they_are"] == {"models/add-portable/model.pte": {"home": 1}}
    assert any(line.startswith("warning: models/add-portable/model.pte") for line in done.lines())


def test_links_and_pipes_are_not_followed_and_said(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the launch code")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    done, files = packed(folder)
    assert done.links == [
        "'folder': a link, which is not followed",
        "'link': a link, which is not followed",
        "'pipe': a special, which is not followed",
    ]
    assert not any(b"launch code" in data for data in files.values())


def test_a_damaged_run_is_not_given_new_digests(folder: Path) -> None:
    (folder / "junit.xml").write_text("other")
    with pytest.raises(Damaged, match=r"junit\.xml"):
        pack(folder, folder.parent / "packed.zip")
    assert not (folder.parent / "packed.zip").exists()


def test_a_run_that_was_cut_off_can_be_packed(recorder: Recorder) -> None:
    passing(recorder)
    _, files = packed(recorder.folder)
    assert "run.json" not in files
    assert json.loads(files["begun.json"])["private"] == {}


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "notes.txt").touch(mode=0)
    with pytest.raises(Damaged, match=r"'notes\.txt' cannot be read"):
        packed(folder)


def test_an_unreadable_file_is_named_whoever_runs_this(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("harness.evidence.pack.shutil.copyfile", refuse)
    with pytest.raises(Damaged, match=r"'begun\.json' cannot be read: Permission denied"):
        packed(folder)
    assert [each.name for each in folder.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("where", ["run/x.zip", "run/serial/x.zip", "there.zip", "no/x.zip"])
def test_a_target_that_will_not_do_is_refused(folder: Path, where: str) -> None:
    (folder.parent / "there.zip").write_text("mine")
    with pytest.raises(UsageError, match=r"lies in the folder|is there already|no folder"):
        pack(folder, folder.parent / where)
    assert (folder.parent / "there.zip").read_text() == "mine"


def test_a_packed_run_is_not_packed_again(folder: Path, tmp_path: Path) -> None:
    packed(folder)
    again = unpacked(folder.parent / "packed.zip", tmp_path / "again")
    with pytest.raises(UsageError, match="was packed before"):
        pack(again, tmp_path / "twice.zip")


def test_a_run_that_is_too_large_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_TOTAL_BYTES", 1000)
    with pytest.raises(UsageError, match="is larger than 1000 B"):
        packed(folder)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("/home/alice/x", "/HOME-1xxxx/x"),
        ("/home/alice", "/HOME-1xxxx"),
        ("/home/alicent/x", "/HOME-1xxxxxx/x"),
        ("alice, malice, alice_2", "U1xxx, malice, alice_2"),
        ("by jörg", "by U1xxx"),
        (r"by j\u00f6rg", "by USER-1xxx"),
        (r"by j\xf6rg", "by USER-1x"),
        ("workbench.example.org", "HOST-1xxxxxxxxxxxxxxx"),
        ("on workbench:", "on HOST-1xxx:"),
        ("SN12345678 SN123456789", "SERIAL-1xx SN123456789"),
        ("2E5A", "S1xx"),
        ("/Users/bob/x", "/HOME-1xxx/x"),
        ("root al /home/", "root al /home/"),
    ],
)
def test_what_is_replaced_and_what_not(text: str, wanted: str) -> None:
    assert Redactor(ALICE).redact(text) == wanted


def test_two_names_differ_and_one_name_is_itself_everywhere() -> None:
    said = Redactor(ALICE).redact("/home/bob /home/eve /home/bob")
    assert said == "/HOME-1xx /HOME-2xx /HOME-1xx"


def test_names_that_many_have_are_left_and_said() -> None:
    assert Redactor(ALICE).kept == [
        "user 'al': too short to be told from other words",
        "user 'root': a name that many have",
    ]


@given(st.lists(st.sampled_from([b"alice", b"/home/alice", b"SN12345678", b"\xff", b" ", b"x"])))
def test_the_length_never_changes(parts: list[bytes]) -> None:
    data = b"".join(parts)
    for hit in Redactor(ALICE).hits(data):
        assert len(hit.placeholder) == hit.end - hit.start


def test_a_board_that_prints_any_number_of_names_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.evidence.redaction.MAX_DISTINCT", 3)
    redactor = Redactor(ALICE)
    text = redactor.redact(" ".join(f"/home/somebody{number}" for number in range(6)))
    assert text.split()[2:] == ["/HOME-3xxxxxxxx"] * 4
