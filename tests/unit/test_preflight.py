from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.boards.board import Tier
from harness.errors import UsageError
from harness.preflight.check import PreflightResult, preflight
from harness.preflight.command import add_parser
from harness.preflight.finding import PreflightVerdict as V
from harness.preflight.registration import Registration, read_registration
from harness.preflight.target_skew import tier_of_cpu
from tests.programs import (
    ProgramBuilder,
    add_program,
    average_pool_program,
    convolution_program,
    float_convolution_program,
    linear_program,
)
from tests.registrations import COUNTS, block, library


@pytest.fixture(scope="module")
def registration(tmp_path_factory: pytest.TempPathFactory) -> Registration:
    return read_registration(library(tmp_path_factory.mktemp("library")))


def check(
    made: ProgramBuilder, registration: Registration | None = None, tier: Tier | None = None
) -> PreflightResult:
    return preflight(made.build(), registration=registration, tier=tier)


def test_good_programs_raise_no_alarm(registration: Registration) -> None:
    for made in (add_program(), linear_program(bias=True), average_pool_program(scratch_bytes=16)):
        result = check(made, registration, Tier.DSP)
        assert (result.verdict, result.findings, result.notes) == (V.OK, (), ())


def test_a_call_with_another_number_of_arguments_is_schema_skew(registration: Registration) -> None:
    result = check(convolution_program(scratch_bytes=0, with_scratch=False), registration)
    (finding,) = result.findings
    assert result.verdict is V.SCHEMA_SKEW
    assert (finding.program_count, finding.library_count) == (14, 15)
    assert finding.operator == "cortex_m::quantized_conv2d.out"
    assert finding.instructions == ("0:1",)
    assert "0x23" in finding.device


def test_another_kind_of_argument_is_schema_skew(tmp_path: Path) -> None:
    text = block("aten::add.out", 5, tensors=(0, 1, 2, 3))
    result = check(add_program(), read_registration(library(tmp_path, text=text)))
    assert result.verdict is V.SCHEMA_SKEW
    assert "argument 2 is of kind 'int'" in result.findings[0].message


def test_a_missing_operator_comes_with_the_root_ops_that_add_it(registration: Registration) -> None:
    result = check(float_convolution_program(cortex_m=False), registration)
    (finding,) = result.findings
    assert result.verdict is V.OPERATOR_MISSING
    assert 'ROOT_OPS="aten::add.out,aten::convolution.out"' in finding.remedy


@pytest.mark.parametrize(
    ("operator", "remedy"),
    [
        ("executorch_prim::et_copy_index.tensor", "cannot be added with ROOT_OPS"),
        ("aten::sym_size.int", "cannot be added with ROOT_OPS"),
        ("aten::median.out", "cannot be added with ROOT_OPS"),
        ("cortex_m::quantized_conv2d_nhwc.out", "the library was built from"),
    ],
)
def test_what_root_ops_cannot_add_is_said(
    registration: Registration, operator: str, remedy: str
) -> None:
    made = add_program()
    made.call(operator, 1, 3, 3)
    result = check(made, registration)
    assert result.verdict is V.OPERATOR_MISSING
    assert remedy in result.findings[0].remedy


def test_a_kernel_for_other_dtypes_only_is_missing(tmp_path: Path) -> None:
    def keyed(key: str) -> Registration:
        text = block("aten::add.out", 5, key=key)
        return read_registration(library(tmp_path / key[3], text=text))

    floats = "v1/6;0|6;|6;0|6;0"
    assert check(add_program(), keyed(floats)).verdict is V.OK
    result = check(add_program(), keyed(floats.replace("6;", "1;")))
    assert result.verdict is V.OPERATOR_MISSING
    assert "other dtypes" in result.findings[0].message


@pytest.mark.parametrize(
    ("made", "suits"),
    [
        (linear_program(bias=True), "scalar dsp"),
        (linear_program(bias=False), "scalar dsp"),
        # No bias inside: right on every core, as on the device.
        (linear_program(kernel_sum=(60, 150)), "scalar dsp mve"),
        (linear_program(kernel_sum=(67, 158)), "mve"),
        (linear_program(bias=True, kernel_sum=(67, 158)), "scalar dsp mve"),
        (average_pool_program(scratch_bytes=0), "scalar mve"),
        (average_pool_program(scratch_bytes=16), "scalar dsp mve"),
        # 27 values a column, in fours of 28 or 32 bytes.
        (convolution_program(scratch_bytes=0), ""),
        (convolution_program(scratch_bytes=112), "scalar dsp"),
        (convolution_program(scratch_bytes=128), "scalar dsp mve"),
        (convolution_program(scratch_bytes=576, channels=16), "scalar dsp mve"),
        (add_program(), "scalar dsp mve"),
    ],
)
def test_only_differences_that_matter_are_target_skew(made: ProgramBuilder, suits: str) -> None:
    for tier in (Tier.SCALAR, Tier.DSP, Tier.MVE):
        result = check(made, None, tier)
        expected = V.OK if tier.value in suits.split() else V.TARGET_SKEW
        assert result.verdict is expected, tier
    assert [tier.value for tier in result.suits] == suits.split()


def test_target_skew_names_bytes_and_what_the_board_does() -> None:
    (finding,) = check(average_pool_program(scratch_bytes=0), None, Tier.DSP).findings
    assert (finding.program_count, finding.library_count) == (0, 16)
    assert finding.device == "execute failed (0x1)"
    assert "CortexM.M33" in finding.remedy
    (finding,) = check(linear_program(kernel_sum=(67, 158)), None, Tier.DSP).findings
    assert "the answer is wrong" in finding.device


def test_a_scratch_that_differs_and_is_enough_is_no_alarm() -> None:
    assert check(convolution_program(scratch_bytes=4096), None, Tier.DSP).verdict is V.OK


@pytest.mark.parametrize(
    ("cpu", "tier"),
    [
        ("m3", Tier.SCALAR),
        ("cortex-m4", Tier.DSP),
        ("M33", Tier.DSP),
        ("cortex-m55", Tier.MVE),
        ("native", None),
        (None, None),
    ],
)
def test_the_tier_follows_from_the_core(cpu: str | None, tier: Tier | None) -> None:
    assert tier_of_cpu(cpu) is tier


def test_a_convolution_left_in_float_between_cortex_m_operators_is_not_lowered(
    registration: Registration,
) -> None:
    result = check(float_convolution_program(cortex_m=True), registration)
    assert result.verdict is V.NOT_LOWERED
    assert "channels_last" in result.findings[0].remedy


def test_a_portable_float_convolution_is_fine_where_it_is_registered(tmp_path: Path) -> None:
    known = read_registration(library(tmp_path, {**COUNTS, "aten::convolution.out": 11}))
    assert check(float_convolution_program(cortex_m=False), known).verdict is V.OK


def test_a_channels_last_float_convolution_may_be_meant_so(tmp_path: Path) -> None:
    known = read_registration(library(tmp_path, {**COUNTS, "aten::convolution.out": 11}))
    made = float_convolution_program(cortex_m=True, dim_order=(0, 2, 3, 1))
    result = check(made, known)
    assert result.verdict is V.OK
    assert "portable float kernel" in result.notes[0]


def test_a_one_dimensional_convolution_is_missing_not_unlowered(registration: Registration) -> None:
    result = check(float_convolution_program(cortex_m=True, rank=3), registration)
    assert result.verdict is V.OPERATOR_MISSING
    assert "rank 3" in result.notes[0]


def test_a_contiguous_tensor_into_a_channels_last_kernel_is_not_lowered(
    registration: Registration,
) -> None:
    result = check(convolution_program(scratch_bytes=128, dim_order=(0, 1, 2, 3)), registration)
    assert result.verdict is V.NOT_LOWERED
    assert "channels-last" in result.findings[0].message


def test_one_channel_has_no_layout(registration: Registration) -> None:
    made = convolution_program(scratch_bytes=128, channels=1, dim_order=(0, 1, 2, 3))
    (finding,) = check(made, registration).findings
    assert finding.verdict is V.NOT_LOWERED  # for the output, which has 8 channels
    made = average_pool_program(scratch_bytes=16, channels=1, dim_order=(0, 2, 1, 3))
    assert check(made, registration).verdict is V.OK


def test_a_quantized_program_that_was_never_lowered(registration: Registration) -> None:
    made = add_program()
    made.call("quantized_decomposed::quantize_per_tensor.out", 1, 2, 2, 2, 2, 2, 3, 3)
    for known in (registration, None):
        result = check(made, known)
        assert result.verdict is V.NOT_LOWERED
        assert len(result.findings) == 1
        assert "CortexMPassManager" in result.findings[0].remedy


def test_a_delegate_is_named() -> None:
    made = add_program()
    made.delegate("XnnpackBackend")
    result = check(made)
    assert result.verdict is V.DELEGATE_UNSUPPORTED
    assert result.findings[0].operator == "XnnpackBackend"


def test_data_in_another_file_is_no_whole_program() -> None:
    made = add_program()
    made.tensor("float32", 3, external="layer.weight")
    result = check(made)
    assert result.verdict is V.NOT_A_PROGRAM
    assert "'layer.weight'" in result.findings[0].message


def _five_inputs(made: ProgramBuilder) -> None:
    made.inputs *= 5


def _two_outputs(made: ProgramBuilder) -> None:
    made.outputs *= 2


def _number_as_input(made: ProgramBuilder) -> None:
    made.inputs.append(made.whole(3))


def _nine_dimensions(made: ProgramBuilder) -> None:
    made.inputs = [made.tensor("float32", *[1] * 9)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_five_inputs, "5 inputs of at most 4"),
        (_two_outputs, "2 outputs"),
        (_number_as_input, "input 1 is no tensor but of kind 'int'"),
        (_nine_dimensions, "9 dimensions of 8"),
    ],
)
def test_what_etmodel_cannot_feed(change: Callable[[ProgramBuilder], None], says: str) -> None:
    made = add_program()
    change(made)
    result = check(made)
    assert result.verdict is V.UNSUPPORTED_DTYPE
    assert says in result.findings[0].message


@pytest.mark.parametrize("dtype", ["int64", "float16", "int8"])
def test_etmodel_handles_float_only_and_the_runner_everything(dtype: str) -> None:
    data = add_program(dtype).build()
    result = preflight(data, registration=None)
    assert result.verdict is V.UNSUPPORTED_DTYPE
    assert f"input 0 is {dtype}[3]" in result.findings[0].message
    for feeder in ("runner", "none"):
        assert preflight(data, registration=None, feeder=feeder).verdict is V.OK


def test_what_does_not_fit_is_too_large() -> None:
    data = add_program().build()
    for result, says in (
        (preflight(data, registration=None, flash_bytes=800), "flash"),
        (preflight(data, registration=None, ram_bytes=4095), "RAM"),
        (preflight(data, registration=None, arena_bytes=4095), "arena of 4095"),
    ):
        assert result.verdict is V.TOO_LARGE
        assert says in result.findings[0].message
    assert preflight(data, registration=None, ram_bytes=4096, flash_bytes=4096).ok


def test_the_worst_finding_is_the_verdict(registration: Registration) -> None:
    made = convolution_program(scratch_bytes=0, with_scratch=False)
    made.outputs *= 2
    made.call("aten::median.out", 0, 0)
    result = check(made, registration, Tier.DSP)
    assert [f.verdict for f in result.findings] == [
        V.OPERATOR_MISSING,
        V.SCHEMA_SKEW,
        V.UNSUPPORTED_DTYPE,
    ]
    assert result.verdict is V.OPERATOR_MISSING


def test_a_registry_too_small_for_its_kernels_is_remarked_on(tmp_path: Path) -> None:
    result = check(add_program(), read_registration(library(tmp_path, max_kernels=2)))
    assert result.ok
    assert "room for 2" in result.notes[0]


def command(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["preflight", *argv])
    code = arguments.func(arguments)
    assert isinstance(code, int)
    return code


def test_the_command_prints_one_json_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = library(tmp_path / "library")
    model = tmp_path / "model.pte"
    model.write_bytes(linear_program(kernel_sum=(67, 158)).build())
    argv = [str(model), "--library", str(root), "--json"]
    assert command(*argv, "--board", "m55") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "ok"
    assert command(*argv, "--board", "m33") == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["verdict"] == "target-skew"
    assert printed["findings"][0]["instruction"] == "0:1"
    assert printed["program"]["methods"][0]["inputs"][0]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("name", "data", "verdict"),
    [
        ("model.pte", b"", "not-a-program"),
        ("model.pte", add_program().build()[:200], "corrupt"),
        ("model.h", b"#error nothing here", "not-a-program"),
        ("model.h", b"\xff\xff", "not-a-program"),
    ],
)
def test_the_command_gives_a_verdict_for_any_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, verdict: str
) -> None:
    (tmp_path / name).write_bytes(data)
    assert command(str(tmp_path / name), "--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict


def test_the_command_text_carries_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = add_program()
    made.delegate("evil\x1b[2J")
    (tmp_path / "m.pte").write_bytes(made.build())
    assert command(str(tmp_path / "m.pte")) == 1
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "remedy: export the model without a partitioner" in printed


def test_a_wrong_argument_is_usage_and_with_json_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none.pte")
    with pytest.raises(UsageError, match="no model file"):
        command(missing)
    assert command(missing, "--json") == 2
    printed = json.loads(capsys.readouterr().out)
    assert printed["verdict"] is None
    assert "none.pte" in printed["error"]


def test_without_any_library_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(add_program().build())
    assert command(str(path)) == 0
    assert "not checked against a library" in capsys.readouterr().out


def test_a_checkout_that_is_none_is_a_usage_error(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(add_program().build())
    with pytest.raises(UsageError, match="no-such-folder"):
        command(str(path), "--executorch", str(tmp_path / "no-such-folder"))
    with pytest.raises(UsageError, match="a library and a checkout were given"):
        command(str(path), "--executorch", "a", "--library", "b")
