"""Finds a program that was lowered for another core, where argument counts cannot tell.

Two differences are real.  ``quantized_linear``: on MVE the kernel takes the bias inside
``kernel_sum``, on all others from ``bias``, and each ignores the other, so that a program for the
wrong one gives a wrong answer with no error.  Scratch memory: see :mod:`.scratch`; more than
needed is harmless.  A program without either is right on every core and is not remarked on.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.boards.board import Tier
from harness.preflight.finding import Call, Finding, PreflightVerdict, kernel_calls
from harness.preflight.program_types import Method, Program
from harness.preflight.scratch import needed_scratch

CORE_TIERS = (Tier.SCALAR, Tier.DSP, Tier.MVE)

# ExecuTorch's backends/cortex_m/target_config.py, without overrides of the instruction set.
_CPU_TIERS = {
    "m0": Tier.SCALAR,
    "m0plus": Tier.SCALAR,
    "m0+": Tier.SCALAR,
    "m3": Tier.SCALAR,
    "m23": Tier.SCALAR,
    "m4": Tier.DSP,
    "m4f": Tier.DSP,
    "m7": Tier.DSP,
    "m33": Tier.DSP,
    "m35p": Tier.DSP,
    "m55": Tier.MVE,
    "m85": Tier.MVE,
}

_EXAMPLES = {Tier.SCALAR: "M3", Tier.DSP: "M33", Tier.MVE: "M55"}

_LINEAR = ("cortex_m::quantized_linear.out", 13)


@dataclass(frozen=True)
class Skew:
    """One call that goes wrong on a tier: why, and what the device would do."""

    call: Call
    reason: str
    device: str
    program_count: int | None = None
    library_count: int | None = None


def tier_of_cpu(cpu: str | None) -> Tier | None:
    """The kernel tier of ``cpu``, ``m33`` or ``cortex-m33``; None where it is not known."""
    return None if cpu is None else _CPU_TIERS.get(cpu.lower().removeprefix("cortex-"))


class TargetCheck:
    """One method against any tier.  What is found out about its weights is kept between tiers."""

    def __init__(self, program: Program, method: Method) -> None:
        self._program = program
        self._method = method
        self._skews: dict[Tier, tuple[Skew, ...]] = {}
        self._biased: dict[tuple[int, ...], bool] = {}
        # Weights do not overlap in a sane program, so that one file's worth is all there is.
        self._bytes_left = len(program.data)

    def suitable_tiers(self) -> tuple[Tier, ...]:
        """The tiers on which the method finds what its kernels need."""
        return tuple(tier for tier in CORE_TIERS if not self.skews(tier))

    def skews(self, tier: Tier) -> tuple[Skew, ...]:
        """Every call that goes wrong on ``tier``."""
        if tier not in self._skews:
            found = []
            for call in kernel_calls(self._method):
                if (call.operator, len(call)) == _LINEAR:
                    found += self._linear(call, tier)
                found += _scratch(call, tier)
            self._skews[tier] = tuple(found)
        return self._skews[tier]

    def findings(self, tier: Tier) -> tuple[Finding, ...]:
        """Findings for ``tier``, one for each operator and reason."""
        groups: dict[tuple[str, str], list[Skew]] = {}
        for skew in self.skews(tier):
            kind = "scratch" if skew.library_count is not None else skew.reason
            groups.setdefault((skew.call.operator, kind), []).append(skew)
        if not groups:
            return ()
        suited = [each.value for each in self.suitable_tiers()]
        lowered = f"it suits {' and '.join(suited)} cores" if suited else "it suits no one core"
        return tuple(
            Finding(
                PreflightVerdict.TARGET_SKEW,
                f"{operator!r} at {group[0].call.place} {group[0].reason}: the program was lowered "
                f"for another core ({lowered})",
                f"export the model for a {tier.value} core, "
                f"CortexMTargetConfig(cpu=CortexM.{_EXAMPLES[tier]}) for example",
                group[0].device,
                operator=operator,
                method=self._method.name,
                instructions=tuple(each.call.place for each in group),
                program_count=group[0].program_count,
                library_count=group[0].library_count,
            )
            for (operator, _), group in groups.items()
        )

    def _linear(self, call: Call, tier: Tier) -> list[Skew]:
        bias, kernel_sum = call.tensor(2), call.tensor(3)
        if tier is Tier.MVE:
            if kernel_sum is None:
                reason = "has no kernel_sum, which the mve kernel demands"
                return [Skew(call, reason, "execute failed (0x1)")]
            return []
        if kernel_sum is None or bias is not None:
            return []
        if self._sum_holds_bias(call):
            reason = f"carries its bias in kernel_sum, which the {tier.value} kernel ignores"
            return [Skew(call, reason, "no error: the answer is wrong")]
        return []

    def _sum_holds_bias(self, call: Call) -> bool:
        """Whether ``kernel_sum`` is more than the sum of the weights times the input's offset.

        Where it is not, there was no bias and the answer is right without it.  False, too, where
        the weights are not in the program, which no exporter writes: nothing can be said then.
        """
        key = call.arguments[1:6]
        if key not in self._biased:
            weights = call.tensor(1)
            self._bytes_left -= weights.nbytes if weights is not None else 0
            self._biased[key] = self._bytes_left >= 0 and _sum_holds_bias(self._program, call)
        return self._biased[key]


def _scratch(call: Call, tier: Tier) -> list[Skew]:
    found = []
    for scratch in needed_scratch(call, tier):
        tensor = call.tensor(scratch.slot)
        has = 0 if tensor is None else tensor.nbytes
        if has < scratch.needed_bytes:
            reason = (
                f"has {has} bytes of scratch where the {tier.value} kernel needs "
                f"{scratch.needed_bytes}"
            )
            device = (
                "no error: the kernel writes past its scratch, and the answer may be wrong"
                if has
                else "execute failed (0x1)"
            )
            found.append(Skew(call, reason, device, has, scratch.needed_bytes))
    return found


def _sum_holds_bias(program: Program, call: Call) -> bool:
    weights, total = call.tensor(1), call.tensor(3)
    offset, filter_offset = call.number(4), call.number(5)
    if weights is None or total is None or offset is None or filter_offset is None:
        return False
    if weights.dtype != "int8" or len(weights.sizes) != 2 or total.dtype != "int32":
        return False
    data, sums = program.constant_bytes(weights), program.constant_bytes(total)
    rows, columns = weights.sizes
    if data is None or sums is None or total.elements != rows:
        return False
    signed = data.cast("b")
    for row, found in enumerate(_int32(sums)):
        plain = sum(signed[row * columns : (row + 1) * columns]) + columns * filter_offset
        if (plain * offset - found) % 2**32:
            return True
    return False


def _int32(data: memoryview) -> list[int]:
    return [
        int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), 4)
    ]
