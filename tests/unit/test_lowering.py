from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.lowering import LoweringError, apply_passes, output_scale, unlowered


class Edge:
    """As much of an edge program manager as the passes touch."""

    def __init__(self) -> None:
        self._edge_programs: dict[str, Any] = {"forward": "before"}
        self.transformed: list[object] = []

    def exported_program(self) -> Any:
        return self._edge_programs["forward"]

    def transform(self, passes: object) -> Edge:
        self.transformed.append(passes)
        return self


def node(name: str, *args: object) -> SimpleNamespace:
    target = SimpleNamespace(_schema=SimpleNamespace(name=name))
    return SimpleNamespace(op="call_function", target=target, args=args)


def graph(*nodes: SimpleNamespace) -> SimpleNamespace:
    output = SimpleNamespace(op="output", target="output", args=([nodes[-1]],))
    return SimpleNamespace(nodes=[*nodes, output], output_node=lambda: output)


def test_a_manager_that_holds_the_program_replaces_the_method() -> None:
    class Manager:
        def __init__(
            self, exported_program: object, passes: object = None, target_config: object = None
        ) -> None:
            self.given = (exported_program, passes, target_config)

        def transform(self) -> object:
            return ("after", *self.given)

    edge = apply_passes(Edge(), Manager, "m33")
    assert edge.exported_program() == ("after", "before", None, "m33")
    assert not edge.transformed


def test_a_manager_without_a_program_is_handed_to_transform() -> None:
    class Manager:
        def __init__(self, *, target_config: object = None) -> None:
            self.target_config = target_config

    edge = apply_passes(Edge(), Manager, "m33")
    (manager,) = edge.transformed
    assert manager.target_config == "m33"


def test_an_exporter_that_takes_no_target_is_refused() -> None:
    class Manager:
        def __init__(self, exported_program: object) -> None:
            raise AssertionError(f"must not be built, with {exported_program!r}")

    with pytest.raises(LoweringError, match="cannot be told which core to lower for"):
        apply_passes(Edge(), Manager, "m33")


def test_operators_that_compute_and_stayed_are_named_once() -> None:
    left = unlowered(
        graph(
            node("cortex_m::quantize_per_tensor"),
            node("aten::convolution"),
            node("aten::view_copy"),
            node("aten::convolution"),
            node("dim_order_ops::_clone_dim_order"),
            node("quantized_decomposed::dequantize_per_tensor"),
        )
    )
    assert left == ("aten::convolution", "quantized_decomposed::dequantize_per_tensor")


def test_python_functions_in_the_graph_are_no_operators() -> None:
    allocate = SimpleNamespace(op="call_function", target=len, args=())
    assert unlowered(graph(allocate, node("cortex_m::pad"))) == ()


@pytest.mark.parametrize("namespace", ["cortex_m", "quantized_decomposed"])
def test_the_scale_is_the_last_dequantizes(namespace: str) -> None:
    last = node(f"{namespace}::dequantize_per_tensor", "x", 0.25, -3, -128, 127)
    assert output_scale(graph(node("aten::add"), last)) == 0.25


def test_a_float_program_has_no_output_scale() -> None:
    assert output_scale(graph(node("aten::add", "x", 1.0))) == 0.0
