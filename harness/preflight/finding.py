"""What preflight can conclude of a model, and how one finding is put."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from harness.preflight.program_types import IntList, KernelCall, Method, Tensor, Value


class PreflightVerdict(Enum):
    """The closed set of conclusions; where several hold, the first one here is the verdict."""

    NOT_A_PROGRAM = "not-a-program"
    CORRUPT = "corrupt"
    DELEGATE_UNSUPPORTED = "delegate-unsupported"
    NOT_LOWERED = "not-lowered"
    OPERATOR_MISSING = "operator-missing"
    SCHEMA_SKEW = "schema-skew"
    TARGET_SKEW = "target-skew"
    UNSUPPORTED_DTYPE = "unsupported-dtype"
    TOO_LARGE = "too-large"
    OK = "ok"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with the model.

    ``instructions`` are places ``chain:number`` in ``method``, the form in which the device's own
    log names them.  ``program_count`` and ``library_count`` are arguments, elements or bytes,
    whichever the finding compares.  ``device`` is what the board would have said.
    """

    verdict: PreflightVerdict
    message: str
    remedy: str
    device: str
    operator: str | None = None
    method: str | None = None
    instructions: tuple[str, ...] = ()
    program_count: int | None = None
    library_count: int | None = None

    def as_json(self) -> dict[str, object]:
        """Plain data for a report; absent facts are left out."""
        found: dict[str, object] = {
            "verdict": self.verdict.value,
            "message": self.message,
            "remedy": self.remedy,
            "device": self.device,
            "operator": self.operator,
            "method": self.method,
            "instruction": self.instructions[0] if self.instructions else None,
            "instructions": list(self.instructions) or None,
            "program_count": self.program_count,
            "library_count": self.library_count,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class Call:
    """One kernel call with its operator's name and its arguments' values at hand."""

    method: Method
    place: str
    operator: str
    arguments: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.arguments)

    def value(self, slot: int) -> Value:
        """The argument in ``slot``."""
        return self.method.values[self.arguments[slot]]

    def tensor(self, slot: int) -> Tensor | None:
        """The tensor in ``slot``, or None where there is none."""
        value = self.value(slot)
        return value if isinstance(value, Tensor) else None

    def number(self, slot: int) -> int | None:
        """The whole number in ``slot``, or None."""
        value = self.value(slot)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def pair(self, slot: int) -> tuple[int, int] | None:
        """The two whole numbers of the list in ``slot``, or None."""
        value = self.value(slot)
        if not isinstance(value, IntList) or len(value.items) != 2:
            return None
        first, second = (self.method.values[item] for item in value.items)
        return (first, second) if isinstance(first, int) and isinstance(second, int) else None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors among the arguments, outputs included, in order."""
        values = (self.method.values[index] for index in self.arguments)
        return tuple(value for value in values if isinstance(value, Tensor))


def kernel_calls(method: Method) -> Iterator[Call]:
    """Every kernel call of ``method`` in order."""
    for chain, instructions in enumerate(method.chains):
        for number, instruction in enumerate(instructions):
            if isinstance(instruction, KernelCall):
                operator = method.operators[instruction.operator]
                yield Call(method, f"{chain}:{number}", operator, instruction.arguments)
