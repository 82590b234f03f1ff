"""What a library says of itself, however odd, and what is said of an exporter beside it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.library.provenance import (
    Exporter,
    LibraryProvenance,
    exporter_mismatch,
    flatbuffers_version,
    from_json,
    read_exporter,
    read_properties,
    read_record,
    schema_mismatch,
    to_json,
)

COMMIT = "c" * 40
EXPORTER = Exporter(wheel_version="1.5.1", git_revision="e" * 40, torch_version="2.14.1")
PROVENANCE = LibraryProvenance(
    origin="checkout",
    commit=COMMIT,
    dirty=True,
    op_set="aten::add.out",
    kernels=3,
    max_kernels=9,
    exporter=EXPORTER,
    flatc_version="24.3.25",
    flatbuffers_version="24.3.25",
    schema_source="wheel flatc",
    version="0.2.0",
    pin=COMMIT,
    provenance_text="text",
    digest="d" * 64,
    changes=(" M runtime/a.h",),
)


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_exporter_is_read_without_importing_torch() -> None:
    before = set(sys.modules)
    exporter = read_exporter()
    assert len(exporter.git_revision) == 40
    assert exporter.wheel_version[0].isdigit()
    assert exporter.torch_version[0].isdigit()
    assert not {name for name in set(sys.modules) - before if name.startswith(("torch", "exec"))}


def test_an_empty_folder_is_unknown_all_over(tmp_path: Path) -> None:
    record = read_record(tmp_path)
    assert (record.commit, record.pin, record.provenance_text) == (None, None, None)
    assert record.max_kernels is None
    assert (record.kernels, record.op_set, record.version) == (0, "unknown", "unknown")
    assert not record.dirty


def test_everything_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        "extras/PROVENANCE.txt",
        f"made by a script\n\ncommit:      {COMMIT} (tree had uncommitted changes)\n"
        "op set:      aten::add.out,aten::mul.out\nkernels:     99\n",
    )
    write(tmp_path, "executorch_pin.txt", f"{COMMIT}\n")
    write(tmp_path, "library.properties", "# c=d\nname=ExecuTorch\nversion = 0.2.0\nldflags=-a=b\n")
    write(
        tmp_path,
        "src/executorch/runtime/kernel/selected_max_kernel_num.h",
        "#define EXECUTORCH_SELECTED_MAX_KERNEL_NUM 60\n",
    )
    write(
        tmp_path,
        "src/executorch/codegen/RegisterCodegenUnboxedKernelsEverything.cpp",
        'Kernel(\n "aten::add.out",\n) Kernel("cortex_m::mul.out", SomeKernel(1))\n',
    )
    record = read_record(tmp_path)
    assert record.commit == record.pin == COMMIT
    assert record.dirty
    assert record.op_set == "aten::add.out,aten::mul.out"
    assert (record.kernels, record.max_kernels, record.version) == (2, 60, "0.2.0")
    assert read_properties(tmp_path)["ldflags"] == "-a=b"


@pytest.mark.parametrize(
    "text",
    ["", "commit:\n", "commit: unknown\nop set:\nkernels: 1\n", "\0\xff", "commit: " + "z" * 9999],
)
def test_an_odd_record_leaves_the_commit_unknown(tmp_path: Path, text: str) -> None:
    write(tmp_path, "extras/PROVENANCE.txt", text)
    write(tmp_path, "executorch_pin.txt", "unknown\n")
    record = read_record(tmp_path)
    assert record.commit is None
    assert record.op_set == "unknown"


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    for name in ("extras/PROVENANCE.txt", "executorch_pin.txt", "library.properties"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    assert read_record(tmp_path).commit is None


def test_the_pin_stands_in_for_a_missing_record(tmp_path: Path) -> None:
    write(tmp_path, "executorch_pin.txt", COMMIT)
    assert read_record(tmp_path).commit == COMMIT


def test_flatbuffers_version(tmp_path: Path) -> None:
    assert flatbuffers_version(tmp_path) is None
    write(tmp_path, "base.h", "#define FLATBUFFERS_VERSION_MAJOR 24\n")
    assert flatbuffers_version(tmp_path) is None
    write(
        tmp_path,
        "base.h",
        "".join(
            f"#define FLATBUFFERS_VERSION_{part} {number}\n"
            for part, number in (("MAJOR", 24), ("MINOR", 3), ("REVISION", 25))
        ),
    )
    assert flatbuffers_version(tmp_path) == "24.3.25"


def test_a_mismatch_names_both_revisions() -> None:
    said = exporter_mismatch(PROVENANCE, EXPORTER)
    assert said is not None
    assert "executorch 1.5.1 (eeeeeeeeee)" in said
    assert "cccccccccc" in said


@pytest.mark.parametrize(
    "provenance",
    [
        replace(PROVENANCE, commit=EXPORTER.git_revision),
        replace(PROVENANCE, commit=EXPORTER.git_revision[:9]),
        replace(PROVENANCE, origin="wheel"),
    ],
)
def test_a_match_says_nothing(provenance: LibraryProvenance) -> None:
    assert exporter_mismatch(provenance, EXPORTER) is None


def test_an_unknown_commit_is_said() -> None:
    said = exporter_mismatch(replace(PROVENANCE, commit=None), EXPORTER)
    assert said is not None
    assert "unknown" in said


def test_schema_mismatch_names_both_versions() -> None:
    assert schema_mismatch(PROVENANCE) is None
    assert schema_mismatch(replace(PROVENANCE, flatc_version=None)) is None
    said = schema_mismatch(replace(PROVENANCE, flatbuffers_version="25.9.23"))
    assert said is not None
    assert "24.3.25" in said
    assert "25.9.23" in said


def test_json_and_back() -> None:
    assert from_json(to_json(PROVENANCE)) == PROVENANCE


@pytest.mark.parametrize(
    "spoil",
    [{"origin": "moon"}, {"exporter": None}, {"changes": 3}, {"more": 1}, {"exporter": {}}],
)
def test_a_spoilt_record_is_refused(spoil: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"not a provenance record|unknown origin"):
        from_json(to_json(PROVENANCE) | spoil)
