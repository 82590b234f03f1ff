"""Lower a float network to an edge program: portable as it is, or int8 for one Cortex-M.

Runs only in the export worker's process; torch and executorch are imported when a function is
called.  The exporter's interface moves between releases, so what it accepts is looked up in its
signatures and never concluded from a version number.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

MOVES_DATA = frozenset(
    {
        "aten::cat",
        "aten::clone",
        "aten::permute_copy",
        "aten::select_copy",
        "aten::slice_copy",
        "aten::squeeze_copy",
        "aten::unsqueeze_copy",
        "aten::view_copy",
        "dim_order_ops::_clone_dim_order",
        "dim_order_ops::_to_dim_order_copy",
    }
)
"""Operators that an int8 program may keep: they have no Cortex-M form and compute nothing."""


class LoweringError(Exception):
    """The exporter did not do what was asked, and did not say so itself."""


def to_edge_portable(network: Any, example: Any) -> Any:
    """The float program for portable kernels, as an edge program manager."""
    from executorch.exir import to_edge
    from torch.export import export

    return to_edge(export(network, (example,)))


def to_edge_cortex_m(network: Any, example: Any, calibration: Sequence[Any], cpu: str) -> Any:
    """The int8 program for the core ``cpu`` (``m33``), as an edge program manager.

    ``calibration`` inputs decide the scales.  Raises :class:`LoweringError` for a core the
    exporter does not know or cannot be told, and when an operator was left unlowered.
    """
    from executorch.backends.cortex_m.edge_compile_config import cortex_m_edge_compile_config
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
    from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
    from executorch.exir import to_edge
    from torch.export import export
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    core = getattr(CortexM, cpu.upper(), None)
    if core is None:
        raise LoweringError(f"this exporter knows no core {cpu!r}")
    # Guards on the example's shape would become a call that the quantizer cannot handle.
    captured = export(network, (example,), strict=True).module(check_guards=False)
    prepared = prepare_pt2e(captured, CortexMQuantizer())
    for values in calibration:
        prepared(values)
    edge = to_edge(
        export(convert_pt2e(prepared), (example,)),
        compile_config=cortex_m_edge_compile_config(),
    )
    edge = apply_passes(edge, CortexMPassManager, CortexMTargetConfig(cpu=core))
    left = unlowered(edge.exported_program().graph)
    if left:
        raise LoweringError(
            f"{', '.join(left)} stayed unlowered: the program would run, slowly or not at all"
        )
    return edge


def apply_passes(edge: Any, manager_type: Any, config: Any) -> Any:
    """Run the Cortex-M passes over ``edge`` in whichever way ``manager_type`` offers.

    Either the manager holds the program and its result replaces the method, or it is built
    without one and handed to ``transform``.  A manager that takes no target is refused: it lowers
    for a core of its own choice, with the same argument counts and wrong answers elsewhere.
    """
    accepted = inspect.signature(manager_type).parameters
    if "target_config" not in accepted:
        raise LoweringError("this exporter cannot be told which core to lower for")
    if "exported_program" in accepted:
        manager = manager_type(edge.exported_program(), target_config=config)
        # The program manager offers no public way to store a method's program.
        edge._edge_programs["forward"] = manager.transform()
        return edge
    return edge.transform(manager_type(target_config=config))


def unlowered(graph: Any) -> tuple[str, ...]:
    """Operators that compute and have no Cortex-M form, in order, each once."""
    names = [
        operator_name(node.target)
        for node in graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    ]
    left = [name for name in names if not name.startswith("cortex_m::") and name not in MOVES_DATA]
    return tuple(dict.fromkeys(left))


def operator_name(target: Any) -> str:
    """``namespace::name`` of an edge or ATen operator."""
    return str(target._schema.name)


def output_scale(graph: Any) -> float:
    """The scale of the dequantize that ends the program; 0.0 when it does not end in one."""
    (results,) = graph.output_node().args
    if len(results) != 1:
        return 0.0
    target = getattr(results[0], "target", None)
    if not hasattr(target, "_schema"):
        return 0.0
    if not operator_name(target).endswith("::dequantize_per_tensor"):
        return 0.0
    return float(results[0].args[1])
