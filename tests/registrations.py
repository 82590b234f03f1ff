"""Writes small kernel registrations in the form that ExecuTorch's codegen gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

# Argument counts at cff6f4d, outputs and the returned value included.
COUNTS = {
    "aten::add.out": 5,
    "cortex_m::quantize_per_tensor.out": 8,
    "cortex_m::dequantize_per_tensor.out": 8,
    "cortex_m::quantized_linear.out": 13,
    "cortex_m::quantized_conv2d.out": 15,
    "cortex_m::quantized_avg_pool2d.out": 11,
}


def block(
    name: str, count: int | None, *, key: str = "", tensors: Sequence[int] = (0,), highest: int = 0
) -> str:
    """One ``Kernel(`` block."""
    check = (
        ""
        if count is None
        else f"ET_KERNEL_CHECK_MSG(context, stack.size() == {count}, InvalidProgram, /*void*/, "
        f'"Expected %zu args received %zu", (size_t){count}, stack.size());'
    )
    slots = "".join(f"EValue& v{slot} = *stack[{slot}];\n" for slot in {*tensors, highest})
    bases = "".join(
        f"const torch::executor::Tensor & b{slot} = v{slot}.to<torch::executor::Tensor>();\n"
        for slot in tensors
    )
    middle = f'"{key}",' if key else ""
    head = f'Kernel(\n"{name}",{middle}\n[](Context & context, Span<EValue*> stack) {{\n'
    return f"{head}{check}\n{slots}{bases}}}\n),\n"


def library(
    root: Path,
    counts: Mapping[str, int] = COUNTS,
    *,
    text: str | None = None,
    max_kernels: int | None = 60,
    sources: Sequence[str] = ("op_add", "op_convolution", "op_softmax"),
) -> Path:
    """An Arduino library of registrations only; returns its root."""
    tree = root / "src" / "executorch"
    portable = tree / "kernels" / "portable" / "cpu"
    for folder in (tree / "codegen", tree / "runtime" / "kernel", portable):
        folder.mkdir(parents=True)
    (tree / "backends" / "cortex_m").mkdir(parents=True)
    if text is None:
        text = "".join(block(name, count) for name, count in counts.items())
    generated = f"static Kernel kernels_to_register[] = {{\n{text}}};\n"
    (tree / "codegen" / "RegisterCodegenUnboxedKernelsEverything.cpp").write_text(generated)
    limit = f"#define EXECUTORCH_SELECTED_MAX_KERNEL_NUM {max_kernels}" if max_kernels else ""
    (tree / "runtime" / "kernel" / "selected_max_kernel_num.h").write_text(f"{limit}\n")
    for source in sources:
        (portable / f"{source}.cpp").touch()
    return root
