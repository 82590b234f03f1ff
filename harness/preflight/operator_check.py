"""Compares a program's kernel calls with what a library registers: names, counts, kinds."""

from __future__ import annotations

from collections.abc import Iterable

from harness.preflight.finding import Call, Finding, PreflightVerdict, kernel_calls
from harness.preflight.program_types import Method, Tensor
from harness.preflight.registration import RegisteredKernel, Registration

# Registered by kernels/prim_ops/register_prim_ops.cpp, which no Arduino library contains.
_PRIM_NAMES = ("aten::sym_size.int", "aten::_local_scalar_dense", "aten::sym_numel")
_PRIM_NAMESPACES = ("executorch_prim::", "et_copy_index")


def operator_findings(method: Method, registration: Registration) -> tuple[Finding, ...]:
    """One finding for each operator that is missing, and for each way in which one differs."""
    missing: dict[str, list[Call]] = {}
    skewed: dict[tuple[str, str], list[Call]] = {}
    kernels: dict[str, RegisteredKernel] = {}
    for call in kernel_calls(method):
        kernel = _kernel_for(call, registration)
        if kernel is None:
            missing.setdefault(call.operator, []).append(call)
        elif kernel.arguments is not None and kernel.arguments != len(call):
            kernels[call.operator] = kernel
            skewed.setdefault((call.operator, f"{len(call)}"), []).append(call)
        elif wrong := _wrong_kind(call, kernel):
            skewed.setdefault((call.operator, wrong), []).append(call)
    addable = [name for name in missing if registration.has_source(name)]
    return (
        *(
            _missing(method, operator, calls, registration, addable)
            for operator, calls in missing.items()
            # Said better by the check of what was not lowered.
            if not operator.startswith("quantized_decomposed::")
        ),
        *(
            _count_skew(method, operator, calls, kernels[operator])
            if detail.isdigit()
            else _kind_skew(method, operator, calls, detail)
            for (operator, detail), calls in skewed.items()
        ),
    )


def _kernel_for(call: Call, registration: Registration) -> RegisteredKernel | None:
    """The kernel that the runtime would choose: the one with this key, else one without."""
    kernels = registration.by_name.get(call.operator, ())
    fallback = next((kernel for kernel in kernels if kernel.key is None), None)
    if all(kernel.key is None for kernel in kernels):
        return fallback
    key = _kernel_key(call.tensors)
    return next((kernel for kernel in kernels if kernel.key == key), fallback)


def _kernel_key(tensors: Iterable[Tensor]) -> str:
    """As ``make_kernel_key_string`` of the runtime: dtype and dimension order of each tensor."""
    parts = (
        f"{tensor.scalar.number};{','.join(str(dim) for dim in tensor.dim_order)}"
        for tensor in tensors
    )
    return "v1/" + "|".join(parts)


def _wrong_kind(call: Call, kernel: RegisteredKernel) -> str | None:
    for slot in sorted(kernel.tensors):
        if slot < len(call) and call.tensor(slot) is None:
            found = call.value(slot)
            name = "none" if found is None else type(found).__name__.lower()
            return f"argument {slot} is of kind {name!r} where the library takes a tensor"
    return None


def _missing(
    method: Method,
    operator: str,
    calls: list[Call],
    registration: Registration,
    addable: list[str],
) -> Finding:
    if operator in registration.by_name:
        message = "is registered for other dtypes or dimension orders only"
        remedy = "build the library without selecting kernels by dtype, or for this model's"
    elif operator in _PRIM_NAMES or operator.startswith(_PRIM_NAMESPACES):
        message = "is a primitive of the runtime, and the Arduino library contains none of them"
        remedy = (
            "it cannot be added with ROOT_OPS; write the model without dynamic shapes and control "
            "flow, which is what needs it"
        )
    elif operator.startswith("cortex_m::"):
        message = "is a Cortex-M operator that this library does not have"
        remedy = (
            "export the model with the ExecuTorch that the library was built from, or build the "
            "library from the exporter's commit; ROOT_OPS cannot add it"
        )
    elif registration.has_source(operator):
        message = "is not in the library's registered set"
        root_ops = registration.root_ops(addable)
        remedy = f'build the library again with ROOT_OPS="{root_ops}" (or ALL_OPS=1)'
    else:
        message = "is not in the library, registered or not"
        remedy = (
            "it cannot be added with ROOT_OPS, which selects among ExecuTorch's portable kernels; "
            "write the model without it"
        )
    return Finding(
        PreflightVerdict.OPERATOR_MISSING,
        f"{operator!r} at {calls[0].place} {message}",
        remedy,
        "load_method failed (0x14)",
        operator=operator,
        method=method.name,
        instructions=tuple(call.place for call in calls),
    )


def _count_skew(
    method: Method, operator: str, calls: list[Call], kernel: RegisteredKernel
) -> Finding:
    return Finding(
        PreflightVerdict.SCHEMA_SKEW,
        f"{operator!r} at {calls[0].place} is given {len(calls[0])} arguments, and the library's "
        f"kernel takes {kernel.arguments}: model and library are from different ExecuTorch commits",
        "export the model with the ExecuTorch that the library was built from, or build the "
        "library from the exporter's commit",
        "execute failed (0x23)",
        operator=operator,
        method=method.name,
        instructions=tuple(call.place for call in calls),
        program_count=len(calls[0]),
        library_count=kernel.arguments,
    )


def _kind_skew(method: Method, operator: str, calls: list[Call], detail: str) -> Finding:
    return Finding(
        PreflightVerdict.SCHEMA_SKEW,
        f"{operator!r} at {calls[0].place}: {detail}; model and library are from different "
        "ExecuTorch commits",
        "export the model with the ExecuTorch that the library was built from",
        "no error: the runtime aborts and the board falls silent",
        operator=operator,
        method=method.name,
        instructions=tuple(call.place for call in calls),
    )
