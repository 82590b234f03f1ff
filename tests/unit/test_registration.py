from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.preflight.registration import parse_registration, read_registration
from tests.registrations import block, library

HERE = Path("Register.cpp")


def test_names_counts_and_tensors_are_read(tmp_path: Path) -> None:
    registration = read_registration(library(tmp_path))
    (linear,) = registration.by_name["cortex_m::quantized_linear.out"]
    assert (linear.arguments, linear.key, linear.tensors) == (13, None, frozenset({0}))
    assert registration.max_kernels == 60
    assert registration.backends == ()


def test_the_src_folder_does_as_well_as_the_root(tmp_path: Path) -> None:
    root = library(tmp_path)
    assert read_registration(root / "src") == read_registration(root)


def test_a_block_without_a_check_does_not_borrow_the_next_ones() -> None:
    text = block("a::unchecked.out", None) + block("a::checked.out", 7)
    unchecked, checked = parse_registration(text, HERE)
    assert (unchecked.name, unchecked.arguments) == ("a::unchecked.out", None)
    assert (checked.name, checked.arguments) == ("a::checked.out", 7)


def test_an_operator_may_have_several_keyed_blocks() -> None:
    text = (
        block("aten::add.out", 5, key="v1/6;0,1|6;0,1")
        + block("aten::add.out", 5, key="v1/1;0|1;0")
        + block("aten::add.out", 5)
    )
    kernels = parse_registration(text, HERE)
    assert [kernel.key for kernel in kernels] == ["v1/6;0,1|6;0,1", "v1/1;0|1;0", None]
    assert {kernel.arguments for kernel in kernels} == {5}


def test_an_index_above_the_count_is_a_contradiction() -> None:
    with pytest.raises(UsageError, match=r"demands \[5\] arguments and uses number 5"):
        parse_registration(block("aten::add.out", 5, highest=5), HERE)


def test_two_counts_in_one_block_are_a_contradiction() -> None:
    text = block("aten::add.out", 5).replace("stack.size());", "stack.size() == 6);")
    with pytest.raises(UsageError, match=r"demands \[5, 6\]"):
        parse_registration(text, HERE)


def test_no_registration_and_an_empty_one_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel registration"):
        read_registration(tmp_path)
    with pytest.raises(UsageError, match="no kernel found"):
        read_registration(library(tmp_path, text=""))


def test_the_opt_out_header_gives_no_limit(tmp_path: Path) -> None:
    assert read_registration(library(tmp_path, max_kernels=None)).max_kernels is None


def test_root_ops_keep_what_is_registered_and_add_what_is_missing(tmp_path: Path) -> None:
    registration = read_registration(library(tmp_path))
    assert registration.root_ops(["aten::convolution.out"]) == "aten::add.out,aten::convolution.out"
    assert registration.has_source("aten::convolution.out")
    assert registration.has_source("aten::_softmax.out")
    assert not registration.has_source("aten::median.out")
    assert not registration.has_source("executorch_prim::add.Scalar")
