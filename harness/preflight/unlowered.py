"""Finds what the Cortex-M lowering should have replaced and did not.

Nothing complains when it happens: the quantizer and the passes leave alone what they do not take,
and the program runs on portable float kernels, slow and large, or does not load for want of them.
Only what is certain is a finding.  Float layers on purpose, and operators for which the backend has
no kernel, are legitimate; a program without any Cortex-M operator is a portable one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from harness.preflight.finding import Call, Finding, PreflightVerdict, kernel_calls
from harness.preflight.program_types import Method, Tensor
from harness.preflight.registration import Registration

CHANNELS_LAST = (0, 2, 3, 1)
CONVOLUTION = "aten::convolution.out"

# Where the weight is among the arguments of an operator that has a Cortex-M kernel.
_WEIGHT_SLOTS = {
    CONVOLUTION: 1,
    "aten::linear.out": 1,
    "aten::addmm.out": 2,
    "aten::mm.out": 1,
    "aten::bmm.out": 1,
}

# Input and output of the kernels that refuse anything but channels-last, by argument count.
_CHANNELS_LAST_ONLY = {
    ("cortex_m::quantized_conv2d.out", 15): (0, 13),
    ("cortex_m::quantized_depthwise_conv2d.out", 16): (0, 14),
    ("cortex_m::quantized_transpose_conv2d.out", 17): (0, 15),
    ("cortex_m::quantized_avg_pool2d.out", 11): (0, 9),
    ("cortex_m::quantized_max_pool2d.out", 12): (0, 10),
}

_TRANSPARENT = ("aten::permute_copy.out", "aten::view_copy.out", "aten::t_copy.out")

_LAYOUT_REMEDY = (
    "make the model's example inputs channels-last before quantizing: "
    "example.to(memory_format=torch.channels_last)"
)


def unlowered_findings(
    method: Method, registration: Registration | None
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Findings, and remarks on what may be on purpose."""
    calls = tuple(kernel_calls(method))
    found = [*_never_lowered(method, calls, registration), *_wrong_layout(method, calls)]
    notes: list[str] = []
    if any(call.operator.startswith("cortex_m::") for call in calls):
        left, notes = _left_in_float(method, calls, registration)
        found += left
    return tuple(found), tuple(notes)


def _never_lowered(
    method: Method, calls: tuple[Call, ...], registration: Registration | None
) -> list[Finding]:
    groups = _by_operator(
        call for call in calls if call.operator.startswith("quantized_decomposed::")
    )
    return [
        Finding(
            PreflightVerdict.NOT_LOWERED,
            f"{operator!r} at {group[0].place}: the program is quantized, and this part of it was "
            "not lowered to Cortex-M operators",
            "run CortexMPassManager(edge.exported_program(), target_config=...).transform() "
            "between to_edge and to_executorch",
            "load_method failed (0x14)",
            operator=operator,
            method=method.name,
            instructions=tuple(call.place for call in group),
        )
        for operator, group in groups.items()
        if registration is None or operator not in registration.by_name
    ]


def _wrong_layout(method: Method, calls: tuple[Call, ...]) -> list[Finding]:
    def wrong(call: Call) -> bool:
        slots = _CHANNELS_LAST_ONLY.get((call.operator, len(call)), ())
        return any(_contradicts_channels_last(call.tensor(slot)) for slot in slots)

    return [
        Finding(
            PreflightVerdict.NOT_LOWERED,
            f"{operator!r} at {group[0].place} takes channels-last tensors only, and this program "
            "gives it contiguous ones",
            _LAYOUT_REMEDY,
            "execute failed (0x12)",
            operator=operator,
            method=method.name,
            instructions=tuple(call.place for call in group),
        )
        for operator, group in _by_operator(call for call in calls if wrong(call)).items()
    ]


def _contradicts_channels_last(tensor: Tensor | None) -> bool:
    """As ``is_channels_last_tensor`` of the Cortex-M kernels, which lets ambiguous shapes pass."""
    if tensor is None or len(tensor.sizes) != 4:
        return False
    _, channels, height, width = tensor.sizes
    if channels == 1 or (height == 1 and width == 1):
        return False
    return tensor.dim_order != CHANNELS_LAST


def _left_in_float(
    method: Method, calls: tuple[Call, ...], registration: Registration | None
) -> tuple[list[Finding], list[str]]:
    writers: dict[int, Call] = {}
    for call in calls:
        writers.setdefault(call.arguments[-1] if call.arguments else -1, call)
    certain: list[Call] = []
    notes = []
    for operator, group in _by_operator(call for call in calls if _is_float(call)).items():
        registered = registration is not None and operator in registration.by_name
        sure = [call for call in group if _should_be_int8(call, writers)]
        rank4 = operator != CONVOLUTION or any(_rank(call) == 4 for call in group)
        if sure or (rank4 and not registered):
            certain += group
        elif registered:
            notes.append(
                f"{operator!r} at {group[0].place} runs on a portable float kernel beside "
                "Cortex-M operators: slow, and only right if meant so"
            )
        else:
            notes.append(
                f"{operator!r} at {group[0].place} has an input of rank {_rank(group[0])}, which "
                "the Cortex-M backend does not take; write it as a 2-D convolution of height 1"
            )
    return [
        _left_finding(method, operator, group) for operator, group in _by_operator(certain).items()
    ], notes


def _left_finding(method: Method, operator: str, group: list[Call]) -> Finding:
    contiguous = operator == CONVOLUTION and any(
        _contradicts_channels_last(call.tensor(0)) for call in group
    )
    reason = "; its input is contiguous, and the quantizer takes only channels-last ones"
    return Finding(
        PreflightVerdict.NOT_LOWERED,
        f"{operator!r} at {group[0].place} was left in float in a program for Cortex-M"
        f"{reason if contiguous else ''} ({len(group)} such calls)",
        _LAYOUT_REMEDY
        if contiguous
        else "quantize the whole model, pass cortex_m_edge_compile_config() to to_edge, and run "
        "the passes on the result",
        "load_method failed (0x14) where the library does not register it, else a slow answer",
        operator=operator,
        method=method.name,
        instructions=tuple(call.place for call in group),
    )


def _is_float(call: Call) -> bool:
    if call.operator not in _WEIGHT_SLOTS or len(call) <= _WEIGHT_SLOTS[call.operator]:
        return False
    tensors = call.tensors
    return bool(tensors) and all(tensor.dtype == "float32" for tensor in tensors)


def _should_be_int8(call: Call, writers: dict[int, Call]) -> bool:
    """Whether the weight is made from int8, or the input has the layout the quantizer refuses."""
    if call.operator == CONVOLUTION and _contradicts_channels_last(call.tensor(0)):
        return True
    index = call.arguments[_WEIGHT_SLOTS[call.operator]]
    for _ in range(4):
        writer = writers.get(index)
        if writer is None or not writer.arguments:
            return False
        if "::dequantize_per_" in writer.operator:
            source = writer.tensor(0)
            return source is not None and source.is_constant
        if writer.operator not in _TRANSPARENT:
            return False
        index = writer.arguments[0]
    return False


def _rank(call: Call) -> int:
    tensor = call.tensor(0)
    return 0 if tensor is None else len(tensor.sizes)


def _by_operator(calls: Iterable[Call]) -> dict[str, list[Call]]:
    groups: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        groups[call.operator].append(call)
    return dict(groups)
