"""Real exports, portable and for Cortex-M.  Slow (some 30 s): each child imports torch."""

from __future__ import annotations

import hashlib
import re
import struct
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from harness import process
from harness.errors import BenchError, UsageError
from harness.machine.config import load_config
from harness.model.child import Job, environment, run_exports
from harness.model.export import PORTABLE, ExportTarget, ModelArtifact, export_models, model_names
from harness.model.seeded import seeded_bytes

pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(find_spec("executorch") is None, reason="executorch is not installed"),
]

M33 = ExportTarget("cortex-m", "m33")
M55 = ExportTarget("cortex-m", "m55")
CHECKOUT = load_config().executorch
WANTED = [
    ("add", PORTABLE),
    ("ds_cnn", PORTABLE),
    ("ds_cnn", M33),
    ("ds_cnn", M55),
    ("autoencoder", M33),
]

needs_checkout = pytest.mark.skipif(
    CHECKOUT is None, reason="no ExecuTorch checkout is configured (HIL_EXECUTORCH)"
)


@pytest.fixture(scope="module")
def exported(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[str, str], ModelArtifact]:
    """Every export of this file, by model and target, in a cache of its own."""
    wanted = list(WANTED)
    if CHECKOUT is not None:
        wanted.append(("keyword_spotting", M33))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        artifacts = export_models(wanted, checkout=CHECKOUT, progress=lambda _line: None)
    return {
        (name, target.label): artifact
        for (name, target), artifact in zip(wanted, artifacts, strict=True)
    }


def floats(path: Path) -> tuple[float, ...]:
    data = path.read_bytes()
    return struct.unpack(f"<{len(data) // 4}f", data)


def kernels(artifact: ModelArtifact) -> list[str]:
    return artifact.provenance["kernels"].split(", ")


def test_add_gives_x_plus_1(exported: dict[tuple[str, str], ModelArtifact]) -> None:
    add = exported["add", "portable"]
    assert kernels(add) == ["aten::add.out"]
    assert add.inputs == add.outputs
    assert add.inputs[0].sizes == (3,)
    assert add.output_lsb == 0.0
    assert 0 < add.tolerance < 1e-4
    for case in add.cases:
        for given, answer in zip(floats(case.input_path), floats(case.output_path), strict=True):
            assert answer == pytest.approx(given + 1.0, abs=1e-7)


@needs_checkout
def test_add_is_upstreams_own_program(exported: dict[tuple[str, str], ModelArtifact]) -> None:
    assert CHECKOUT is not None
    theirs = CHECKOUT / "examples/arduino/examples/AddModel/model.pte"
    assert exported["add", "portable"].pte.read_bytes() == theirs.read_bytes()


def test_every_export_is_complete(exported: dict[tuple[str, str], ModelArtifact]) -> None:
    for artifact in exported.values():
        program = artifact.pte.read_bytes()
        assert program[4:8] == b"ET12"
        assert hashlib.sha256(program).hexdigest() == artifact.digest
        words = re.findall(r"\b0x([0-9a-f]{2})\b", artifact.header.read_text(encoding="ascii"))
        assert bytes.fromhex("".join(words)) == program
        assert artifact.arena_hint_bytes > int(artifact.provenance["planned_bytes"])
        assert artifact.cases
        for case in artifact.cases:
            assert case.input_path.stat().st_size == artifact.inputs[0].nbytes
            assert case.output_path.stat().st_size == artifact.outputs[0].nbytes
            if case.seed is not None:
                wanted = seeded_bytes("float32", artifact.inputs[0].nbytes // 4, case.seed)
                assert case.input_path.read_bytes() == wanted


def test_portable_goldens_were_checked_against_the_wheels_runtime(
    exported: dict[tuple[str, str], ModelArtifact],
) -> None:
    for name in ("add", "ds_cnn"):
        checked = exported[name, "portable"].provenance["cross-check"]
        assert re.fullmatch(r"the wheel's runtime differs by \S+ at most", checked), checked


def test_int8_programs_hold_nothing_unlowered(
    exported: dict[tuple[str, str], ModelArtifact],
) -> None:
    for (_, target), artifact in exported.items():
        if target == "portable":
            continue
        left = {each for each in kernels(artifact) if not each.startswith("cortex_m::")}
        assert left <= {"aten::view_copy.out", "dim_order_ops::_clone_dim_order.out"}


def test_int8_goldens_lie_on_the_scale_and_tell_seeds_apart(
    exported: dict[tuple[str, str], ModelArtifact],
) -> None:
    for key in (("ds_cnn", "cortex-m33"), ("autoencoder", "cortex-m33")):
        artifact = exported[key]
        outputs = [floats(case.output_path) for case in artifact.cases]
        for output in outputs:
            steps = [value / artifact.output_lsb for value in output]
            assert all(abs(each - round(each)) < 1e-3 for each in steps)
            assert max(steps) - min(steps) > 50
        for one, other in pairwise(outputs):
            furthest = max(abs(a - b) for a, b in zip(one, other, strict=True))
            assert furthest > 3 * artifact.output_lsb


def test_int8_goldens_agree_with_the_float_network(
    exported: dict[tuple[str, str], ModelArtifact],
) -> None:
    exact = exported["ds_cnn", "portable"].cases
    rounded = exported["ds_cnn", "cortex-m33"].cases
    for one, other in zip(exact, rounded, strict=True):
        pairs = zip(floats(one.output_path), floats(other.output_path), strict=True)
        assert max(abs(a - b) for a, b in pairs) < 0.15


def test_a_program_is_of_the_core_it_was_asked_for(
    exported: dict[tuple[str, str], ModelArtifact],
) -> None:
    m33, m55 = exported["ds_cnn", "cortex-m33"], exported["ds_cnn", "cortex-m55"]
    assert m33.digest != m55.digest
    assert int(m33.provenance["planned_bytes"]) < int(m55.provenance["planned_bytes"])
    assert m33.output_lsb == m55.output_lsb


@needs_checkout
def test_recorded_keywords_are_recognized(
    exported: dict[tuple[str, str], ModelArtifact],
) -> None:
    spotter = exported["keyword_spotting", "cortex-m33"]
    recorded = [case for case in spotter.cases if case.seed is None]
    assert len(recorded) == 10
    for case in recorded:
        assert case.expected_class is not None
        assert spotter.labels[case.expected_class] == case.label
        output = floats(case.output_path)
        assert output.index(max(output)) == case.expected_class


def test_another_process_exports_the_same_bytes_until_the_disk_is_full(
    exported: dict[tuple[str, str], ModelArtifact], tmp_path: Path
) -> None:
    """One child for both, since each costs an import of torch."""
    jobs = [Job("ds_cnn", "m33", tmp_path / "again"), Job("add", None, tmp_path / "full")]
    for job in jobs:
        job.folder.mkdir()
    (tmp_path / "full/model.pte").symlink_to("/dev/full")
    again, full = run_exports(jobs, checkout=None, progress=lambda _line: None).values()
    assert again is None
    assert isinstance(full, BenchError)
    assert "is full, so model 'add' was not exported" in str(full)
    before = exported["ds_cnn", "cortex-m33"]
    assert (tmp_path / "again/model.pte").read_bytes() == before.pte.read_bytes()
    for case in before.cases:
        repeated = tmp_path / "again/cases" / case.output_path.name
        assert repeated.read_bytes() == case.output_path.read_bytes()


def test_contiguous_images_and_bad_checkpoints_are_caught(tmp_path: Path) -> None:
    """One child for both, since each costs an import of torch."""
    code = """
import pathlib, pickle, sys, torch
from harness.model.registry import find_model
from harness.model.registry.keyword_spotting import build
from harness.model.lowering import LoweringError, to_edge_cortex_m
network = find_model("resnet8").build(None)
example = torch.zeros(1, 3, 32, 32)
try:
    to_edge_cortex_m(network, example, [example], "m33")
except LoweringError as error:
    print("lowering:", error)
root = pathlib.Path(sys.argv[1])
path = root / "examples/arduino/examples/KeywordSpotting/model.pth"
path.parent.mkdir(parents=True)
class Hostile:
    def __reduce__(self):
        return (exec, (f"open({str(root / 'harmed')!r}, 'w')",))
for number, state in enumerate([Hostile(), {"weight": torch.zeros(3)}, None]):
    if state is None:
        path.write_bytes(b"not a checkpoint")
    elif number:
        torch.save(state, path)
    else:
        path.write_bytes(pickle.dumps(state))
    try:
        build(root)
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = process.run(
        [sys.executable, "-c", code, str(tmp_path)],
        timeout_s=300,
        env=environment(),
    )
    assert done.ok, done.tail()
    lines = done.stdout.splitlines()
    assert lines[0].startswith("lowering: aten::convolution")
    assert "stayed unlowered" in lines[0]
    assert len(lines) == 4
    for line in lines[1:]:
        assert line.startswith("UsageError")
        assert "is not a checkpoint of this network" in line
    assert not (tmp_path / "harmed").exists()


def test_a_missing_checkpoint_is_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs '.*model\.pth', which does not exist"):
        export_models([("keyword_spotting", M33)], checkout=tmp_path, progress=lambda _line: None)


def test_without_a_checkout_five_models_remain() -> None:
    assert len(model_names(None)) == 5
