"""How much scratch memory a CMSIS-NN kernel uses on each tier, in bytes.

The exporter bakes the size for one core into a program, and the kernels do not check it: a null
buffer makes some fail, a short one is overrun.  The formulas are those of CMSIS-NN's
``*_get_buffer_sizes_s8.c`` at the revision ExecuTorch pins (dbf45db), as GCC compiles them.  Where
a call is not of the form that the formulas are for, there is no answer and so no alarm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from harness.boards.board import Tier
from harness.preflight.finding import Call

MVE_CHANNEL_BLOCK = 124  # CH_IN_BLOCK_MVE
REVERSE_CHANNELS = 16  # REVERSE_TCOL_EFFICIENT_THRESHOLD
INT32_BYTES = 4
INT16_BYTES = 2


@dataclass(frozen=True)
class Scratch:
    """One scratch argument: its slot, and what a tier's kernel needs of it."""

    slot: int
    needed_bytes: int


@dataclass(frozen=True)
class _Window:
    """A convolution's shape; pairs are height, width."""

    channels: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    kernel_channels: int
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    output_width: int


def needed_scratch(call: Call, tier: Tier) -> tuple[Scratch, ...]:
    """What ``call`` needs on ``tier``; empty where it needs none or the answer is not known."""
    rule = _RULES.get((call.operator, len(call)))
    return rule(call, tier) if rule else ()


def _average_pool(call: Call, tier: Tier) -> tuple[Scratch, ...]:
    source = call.tensor(0)
    if tier is not Tier.DSP or source is None or len(source.sizes) != 4:
        return ()
    return (Scratch(8, source.sizes[1] * INT32_BYTES),)


def _batch_matmul(call: Call, tier: Tier) -> tuple[Scratch, ...]:
    right = call.tensor(2)
    if tier is not Tier.MVE or right is None or len(right.sizes) != 3:
        return ()
    return (Scratch(7, right.sizes[1] * INT32_BYTES),)


def _convolution(call: Call, tier: Tier) -> tuple[Scratch, ...]:
    window = _window(call, dilation_slot=5, output_slot=13)
    weight = call.tensor(1)
    if window is None or weight is None:
        return ()
    return (Scratch(12, _convolve_wrapper(window, tier)),)


def _depthwise(call: Call, tier: Tier) -> tuple[Scratch, ...]:
    window = _window(call, dilation_slot=5, output_slot=14)
    source, output = call.tensor(0), call.tensor(14)
    if window is None or source is None or output is None:
        return ()
    height, width = window.kernel
    out_channels = output.sizes[1]
    if tier is Tier.MVE and window.channels == 1 and out_channels > 1:
        # This tier makes an ordinary convolution of it, and turns the weights in scratch first.
        turned = out_channels * height * width
        return (Scratch(13, _convolve_wrapper(window, tier) + turned),)
    if window.channels != out_channels or source.sizes[0] != 1 or window.dilation != (1, 1):
        return ()
    if tier is Tier.MVE:
        return (Scratch(13, 4 * MVE_CHANNEL_BLOCK * width * height),)
    if (height, width) == (3, 3) and max(window.padding) <= 1:
        return ()
    if tier is Tier.DSP:
        return (Scratch(13, window.channels * width * height * INT16_BYTES),)
    return ()


def _transpose_convolution(call: Call, tier: Tier) -> tuple[Scratch, ...]:
    window = _window(call, dilation_slot=6, output_slot=15)
    weight, output = call.tensor(1), call.tensor(15)
    if window is None or weight is None or output is None:
        return ()
    height, width = window.kernel
    if max(window.stride) <= 2 and window.channels > REVERSE_CHANNELS:
        turned = window.channels * width * height * weight.sizes[0]
        return (Scratch(13, _convolve(window, tier)), Scratch(14, turned))
    stride_height, stride_width = window.stride
    row = (window.size[1] - 1) * stride_width + max(width, stride_height)
    return (Scratch(13, row * output.sizes[1] * max(height, stride_height) * INT32_BYTES),)


_RULES: dict[tuple[str, int], Callable[[Call, Tier], tuple[Scratch, ...]]] = {
    ("cortex_m::quantized_avg_pool2d.out", 11): _average_pool,
    ("cortex_m::quantized_batch_matmul.out", 10): _batch_matmul,
    ("cortex_m::quantized_conv2d.out", 15): _convolution,
    ("cortex_m::quantized_depthwise_conv2d.out", 16): _depthwise,
    ("cortex_m::quantized_transpose_conv2d.out", 17): _transpose_convolution,
}


def _window(call: Call, *, dilation_slot: int, output_slot: int) -> _Window | None:
    source, weight, output = call.tensor(0), call.tensor(1), call.tensor(output_slot)
    stride, padding = call.pair(3), call.pair(4)
    dilation = call.pair(dilation_slot)
    if source is None or weight is None or output is None:
        return None
    if stride is None or padding is None or dilation is None or min(stride) < 1:
        return None
    if any(len(tensor.sizes) != 4 for tensor in (source, weight, output)):
        return None
    _, channels, height, width = source.sizes
    # Weights are output, height, width, input; a depthwise one keeps its outputs last and has 1
    # input for each.
    _, kernel_height, kernel_width, last = weight.sizes
    depthwise = call.operator == "cortex_m::quantized_depthwise_conv2d.out"
    return _Window(
        channels=channels,
        size=(height, width),
        kernel=(kernel_height, kernel_width),
        kernel_channels=1 if depthwise else last,
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_width=output.sizes[3],
    )


def _convolve_wrapper(window: _Window, tier: Tier) -> int:
    """``arm_convolve_wrapper_s8_get_buffer_size``."""
    plain = window.dilation == (1, 1) and window.channels == window.kernel_channels
    if plain and window.padding == (0, 0) and window.kernel == (1, 1):
        return 0
    row = (
        window.size[0] == 1
        and window.dilation[1] == 1
        and window.kernel[0] == 1
        and window.stride[1] * window.channels % 4 == 0
        and window.channels == window.kernel_channels
    )
    if row and tier is Tier.MVE:
        return _convolve_row(window)
    return _convolve(window, tier)


def _convolve(window: _Window, tier: Tier) -> int:
    """``arm_convolve_s8_get_buffer_size``: columns of the input, four at a time."""
    column = window.kernel[0] * window.kernel[1] * window.channels
    lanes = 16 if tier is Tier.MVE else 4
    return 4 * lanes * -(-column // lanes)


def _convolve_row(window: _Window) -> int:
    """``arm_convolve_1_x_n_s8_get_buffer_size_mve``."""
    pad, kernel, stride = window.padding[1], window.kernel[1], window.stride[1]
    total = (window.output_width - 1) * stride + kernel - window.size[1]
    odd = int(math.fmod(total, 2))
    right = max(1, (pad + odd + stride - 1) // stride) if pad + odd != 0 else 0
    left = max(1, (pad + stride - 1) // stride) if pad != 0 else 0
    if right + max(window.output_width - (right + left), 0) + left != window.output_width:
        return _convolve(window, Tier.MVE)
    channels = window.channels
    pad_left = pad * channels
    pad_right = right * channels if odd else pad_left
    return max(kernel * channels + pad_left, (kernel - 1) * channels + pad_right)
