"""Finds on the host, in milliseconds, what a model would do wrong on the board.

Nothing of torch or ExecuTorch is imported or run.  Every check errs on the side of no alarm: what
cannot be known without the build is left to the stages that know it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from harness.boards.board import Tier
from harness.errors import DutFailure
from harness.preflight.finding import Finding, PreflightVerdict, kernel_calls
from harness.preflight.flatbuffer import CorruptProgram
from harness.preflight.limits import Feeder, feeding_findings, size_findings
from harness.preflight.model_file import parse_header
from harness.preflight.operator_check import operator_findings
from harness.preflight.program import NotAProgram, read_program
from harness.preflight.program_types import Method, Program, Tensor
from harness.preflight.registration import Registration
from harness.preflight.target_skew import TargetCheck, tier_of_cpu
from harness.preflight.unlowered import unlowered_findings

__all__ = ["Feeder", "PreflightResult", "preflight", "program_of_header", "unreadable"]


@dataclass(frozen=True)
class PreflightResult:
    """The verdict, the findings behind it (worst first), and remarks that change nothing.

    ``program`` is None where the file could not be read.  ``suits`` are the kernel tiers on which
    the first method finds what its kernels need.
    """

    verdict: PreflightVerdict
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    program: Program | None
    suits: tuple[Tier, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict is PreflightVerdict.OK

    def with_notes(self, notes: tuple[str, ...]) -> PreflightResult:
        """The same result with more remarks in front."""
        return replace(self, notes=(*notes, *self.notes))

    def as_json(self) -> dict[str, object]:
        """Plain data for ``--json`` and reports."""
        worst = self.findings[0] if self.findings else None
        return {
            "verdict": self.verdict.value,
            "message": worst.message if worst else "nothing wrong was found",
            "remedy": worst.remedy if worst else None,
            "findings": [finding.as_json() for finding in self.findings],
            "notes": list(self.notes),
            "suits": [tier.value for tier in self.suits],
            "program": None if self.program is None else _describe(self.program),
        }


def program_of_header(raw: bytes, *, name: str = "model.h") -> bytes:
    """The program's bytes in a ``model.h``; raises :class:`NotAProgram`."""
    return parse_header(raw, name).data


def preflight(
    data: bytes,
    *,
    registration: Registration | None,
    cpu: str | None = None,
    tier: Tier | None = None,
    flash_bytes: int | None = None,
    ram_bytes: int | None = None,
    arena_bytes: int | None = None,
    feeder: Feeder = "etmodel",
) -> PreflightResult:
    """Check the program in ``data`` against a library and a board, as far as they are given.

    ``cpu`` is ``m33`` or ``cortex-m33``; ``tier`` says more and wins.  Never raises for what the
    file holds.  Only the first method counts: sketches load no other.
    """
    try:
        program = read_program(data)
    except (NotAProgram, CorruptProgram) as error:
        return unreadable(error)
    method = program.methods[0]
    left, notes = unlowered_findings(method, registration)
    found = [*_incomplete(program), *_delegates(method, registration), *left]
    if registration is not None:
        found += operator_findings(method, registration)
    target = TargetCheck(program, method)
    tier = tier or tier_of_cpu(cpu)
    if tier is not None and tier is not Tier.PORTABLE:
        found += target.findings(tier)
    found += feeding_findings(method, feeder)
    found += size_findings(data, method, flash_bytes, ram_bytes, arena_bytes)
    order = list(PreflightVerdict)
    findings = tuple(sorted(found, key=lambda finding: order.index(finding.verdict)))
    return PreflightResult(
        findings[0].verdict if findings else PreflightVerdict.OK,
        findings,
        (*notes, *_remarks(program, registration)),
        program,
        target.suitable_tiers(),
    )


def unreadable(error: DutFailure) -> PreflightResult:
    """The result for a file that is no program, or a damaged one."""
    corrupt = isinstance(error, CorruptProgram)
    verdict = PreflightVerdict.CORRUPT if corrupt else PreflightVerdict.NOT_A_PROGRAM
    finding = Finding(
        verdict,
        error.message,
        error.remedy,
        "Program::load failed (0x23 or 0x12), a hard fault, or a wrong answer with no error"
        if corrupt
        else "Program::load failed (0x23)",
    )
    return PreflightResult(verdict, (finding,), error.evidence, None, ())


def _incomplete(program: Program) -> list[Finding]:
    """A program whose data is elsewhere, or where the library's build will not look."""
    external = sorted(
        {
            value.external
            for method in program.methods[:1]
            for value in method.values
            if isinstance(value, Tensor) and value.external is not None
        }
    )
    found = []
    if external:
        found.append(
            Finding(
                PreflightVerdict.NOT_A_PROGRAM,
                f"{len(external)} tensors, {external[0]!r} first, are in a separate .ptd file, so "
                "this file alone is not a whole program",
                "export the model with its data inside",
                "load_method failed (0x24)",
            )
        )
    if program.deprecated_constants:
        found.append(
            Finding(
                PreflightVerdict.NOT_A_PROGRAM,
                f"{program.deprecated_constants} constants are stored in a form that exporters "
                "gave up in 2024 and the Arduino library's build leaves out",
                "export the model again with a present ExecuTorch",
                "Program::load failed (0x23)",
            )
        )
    return found


def _delegates(method: Method, registration: Registration | None) -> list[Finding]:
    if registration is not None and registration.backends:
        # Some backend was added to this library; which ones it registers is not known here.
        return []
    return [
        Finding(
            PreflightVerdict.DELEGATE_UNSUPPORTED,
            f"{count} parts of method {method.name!r} are delegated to {backend!r}, and the "
            "Arduino library registers no delegate",
            "export the model without a partitioner",
            "load_method failed (0x20)",
            operator=backend,
            method=method.name,
        )
        for backend, count in Counter(each.backend for each in method.delegates).items()
    ]


def _remarks(program: Program, registration: Registration | None) -> list[str]:
    notes = []
    if registration is None:
        notes.append("no library was given: operators and argument counts were not compared")
    elif registration.max_kernels is not None:
        count = len(registration.kernels)
        if count > registration.max_kernels:
            notes.append(
                f"the library registers {count} kernels and has room for "
                f"{registration.max_kernels}: every sketch aborts at start (0x15)"
            )
    if len(program.methods) > 1:
        names = ", ".join(repr(method.name) for method in program.methods[1:5])
        notes.append(f"only the first method is loaded and was checked, not {names}")
    if len(program.data) > program.used_bytes:
        extra = len(program.data) - program.used_bytes
        notes.append(f"{extra} bytes follow the program; the device ignores them")
    return notes


def _describe(program: Program) -> dict[str, object]:
    return {
        "bytes": len(program.data),
        "schema_version": program.schema_version,
        "methods": [
            {
                "name": method.name,
                "inputs": [_tensor(method, index) for index in method.inputs],
                "outputs": [_tensor(method, index) for index in method.outputs],
                "planned_bytes": list(method.planned_bytes),
                "delegates": [each.backend for each in method.delegates],
                "operators": dict(Counter(call.operator for call in kernel_calls(method))),
            }
            for method in program.methods
        ],
    }


def _tensor(method: Method, index: int) -> dict[str, object]:
    value = method.values[index]
    if not isinstance(value, Tensor):
        return {"kind": "none" if value is None else type(value).__name__.lower()}
    return {
        "dtype": value.dtype,
        "sizes": list(value.sizes),
        "dim_order": list(value.dim_order),
        "bytes": value.nbytes,
    }
