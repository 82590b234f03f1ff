"""The child that exports: ``python -m harness.model.worker``, a JSON request on standard input.

The only process of the bench that imports torch, which takes seconds and hundreds of megabytes:
one child exports a whole list.  The request is ``{"checkout": path or null, "exports": [{"model",
"cpu", "folder"}]}``; a ``cpu`` of null asks for the portable program.  Each folder, which must
exist and be empty, gets ``model.pte``, ``model.h``, ``cases/`` and last ``artifact.json``; or
``error.json`` with ``kind`` (``usage``, ``capability``, ``export``), ``message``, ``remedy`` and
``evidence``.  Progress goes to standard output in lines that begin with :data:`PROGRESS`; whatever
else libraries print is not read.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.errors import CapabilityMissing, HilError, UsageError
from harness.model import golden, lowering
from harness.model.exporter_versions import exporter_versions
from harness.model.header import header_text
from harness.model.registry import checkout_files, find_model
from harness.model.registry.spec import ModelSpec, Recording
from harness.model.seeded import seeded_bytes
from harness.storage.atomic_file import write_atomically

PROGRESS = "@export "
DISK_FULL = 74
"""Exit code when there was no room for an answer, nor for an account of it."""


AUTOGROUP = Path("/proc/self/autogroup")


def be_as_nice_as_the_starter() -> None:
    """Take the nice value that was inherited for the whole session as well.

    Linux shares the processor between sessions first (``sched_autogroup``), and this process has
    one of its own: its nice value alone would count for nothing.
    """
    with suppress(OSError):
        if (nice := os.nice(0)) > 0 and AUTOGROUP.exists():
            AUTOGROUP.write_text(str(nice), encoding="ascii")


def main() -> int:
    """Serve one request: 0 when every folder holds its answer, else :data:`DISK_FULL` or 2."""
    parent = os.getppid()
    be_as_nice_as_the_starter()
    try:
        request = json.load(sys.stdin)
        checkout = Path(request["checkout"]) if request["checkout"] else None
        wanted = [(each["model"], each["cpu"], Path(each["folder"])) for each in request["exports"]]
    except (ValueError, KeyError, TypeError) as error:
        print(f"the request is not what this worker takes: {error!r}", file=sys.stderr)
        return 2
    _prepare()
    for model, cpu, folder in wanted:
        if os.getppid() != parent:
            return 2  # Nobody waits for the rest.
        try:
            _answer(model, cpu, checkout, folder)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            print(f"cannot write {error.filename!r}: {error.strerror}", file=sys.stderr)
            return DISK_FULL
    return 0


def _answer(model: str, cpu: str | None, checkout: Path | None, folder: Path) -> None:
    try:
        record = export(model, cpu, checkout, folder)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        _write(folder / "error.json", described(error))
    else:
        _write(folder / "artifact.json", record)


def export(model: str, cpu: str | None, checkout: Path | None, folder: Path) -> dict[str, Any]:
    """Export one model into ``folder`` and return its record.

    ``cpu``: lowered to int8 for that core (``m33``); None: the float program.
    """
    spec = find_model(model)
    sources = checkout_files(spec, checkout)
    recordings = spec.recordings(checkout)
    _progress(f"{model}: lowering for {_target(cpu)}")
    edge = _lowered(spec, cpu, checkout, recordings)
    # Both must be had before the program is emitted, which rewrites the graph in place.
    scale = lowering.output_scale(edge.exported_program().graph)
    reference = edge.exported_program().module()
    emitted = edge.to_executorch()
    plan = emitted.executorch_program.execution_plan[0]
    (source,) = (golden.port(plan.values[index]) for index in plan.inputs)
    (result,) = (golden.port(plan.values[index]) for index in plan.outputs)
    _progress(f"{model}: computing golden outputs")
    cases = golden.write_cases(
        folder / "cases",
        golden.cases(spec, recordings, source),
        source=source,
        result=result,
        run=lambda tensor: _only(reference(tensor)),
        labels=spec.labels,
    )
    program = bytes(emitted.buffer)
    digest = hashlib.sha256(program).hexdigest()
    (folder / "model.pte").write_bytes(program)
    title = f"{spec.title}; {_target(cpu)}; sha256 {digest}"
    (folder / "model.h").write_text(header_text(program, title=title), encoding="ascii")
    provenance = _provenance(sources, cpu, plan)
    tolerance = 0.0
    if scale == 0.0:
        tolerance = golden.FLOAT_TOLERANCE * max(each["largest"] for each in cases)
        provenance["cross-check"] = golden.check_with_wheel(
            program, folder / "cases", cases, source=source, result=result, tolerance=tolerance
        )
    return {
        "name": spec.name,
        "title": spec.title,
        "cpu": cpu,
        "digest": digest,
        "inputs": [vars(source)],
        "outputs": [vars(result)],
        "output_lsb": scale,
        "tolerance": tolerance,
        "labels": list(spec.labels),
        "cases": cases,
        "arena_hint_bytes": arena_hint_bytes(plan, pointer_bytes=8 if cpu is None else 4),
        "provenance": provenance,
    }


def arena_hint_bytes(plan: Any, *, pointer_bytes: int) -> int:
    """An arena that surely holds the program: its planned buffers and, generously, the rest.

    The rest is what the runtime builds per value (50 bytes on a 32-bit core, measured on three
    networks) and per kernel call; twice that with 64-bit pointers.  In whole KiB.
    """
    instructions = sum(len(chain.instructions) for chain in plan.chains)
    structure = (64 * len(plan.values) + 128 * instructions + 1024) * pointer_bytes // 4
    planned = int(sum(plan.non_const_buffer_sizes))
    return -(-(planned + structure) // 1024) * 1024


def described(error: Exception) -> dict[str, Any]:
    """An error as it crosses to the parent."""
    if isinstance(error, UsageError | CapabilityMissing):
        kind = "usage" if isinstance(error, UsageError) else "capability"
        return {
            "kind": kind,
            "message": error.message,
            "remedy": error.remedy,
            "evidence": list(error.evidence),
        }
    if isinstance(error, ImportError):
        missing = error.name or str(error)
        return {
            "kind": "capability",
            "message": f"the exporter cannot be imported here: {missing!r} is missing or does not"
            " fit",
            "remedy": "install the pinned executorch, torch and tosa-tools ('make test' does)",
            "evidence": traceback.format_exception_only(error)[-1].splitlines()[-4:],
        }
    text = str(error).strip().splitlines() or [type(error).__name__]
    return {
        "kind": "export",
        "message": error.message if isinstance(error, HilError) else text[0],
        "remedy": "look at the last lines; with another executorch or torch than the pinned"
        " ones, try those first",
        "evidence": "".join(traceback.format_exception(error)).splitlines()[-12:],
    }


def _prepare() -> None:
    # A tenth of an export's time otherwise, spent in looking for cycles among millions of objects
    # that live until the end anyway.  The child ends with its list.
    gc.disable()
    _progress("loading torch and the exporter")
    try:
        import torch
    except ImportError:
        return  # Each export meets it again, and says so in its own folder.
    # Threads split sums differently from run to run, and the scales come from sums.
    torch.set_num_threads(1)
    torch.manual_seed(0)


def _lowered(
    spec: ModelSpec, cpu: str | None, checkout: Path | None, recordings: tuple[Recording, ...]
) -> Any:
    import torch

    network = spec.build(checkout)
    contiguous = tuple(range(len(spec.input_sizes)))
    if cpu is None:
        return lowering.to_edge_portable(network, torch.zeros(spec.input_sizes))
    order = contiguous if spec.layout == "contiguous" else (0, 2, 3, 1)
    source = golden.Port("float32", spec.input_sizes, order)
    data = [golden.recorded_bytes(each) for each in recordings] or [
        seeded_bytes("float32", source.numel, seed) for seed in spec.calibration_seeds
    ]
    inputs = [golden.from_memory(each, source) for each in data]
    return lowering.to_edge_cortex_m(network, inputs[0], inputs, cpu)


def _provenance(sources: tuple[Path, ...], cpu: str | None, plan: Any) -> dict[str, str]:
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    kernels = dict.fromkeys(f"{each.name}.{each.overload}" for each in plan.operators)
    return {
        **exporter_versions(),
        "target": _target(cpu),
        "weights and recordings": f"sha256 {digest.hexdigest()}" if sources else "seeded",
        "kernels": ", ".join(kernels),
        "planned_bytes": str(sum(plan.non_const_buffer_sizes)),
    }


def _only(outputs: Any) -> Any:
    # A network that returns a bare tensor gets a module that does, too.
    if isinstance(outputs, tuple | list):
        (outputs,) = outputs
    return outputs


def _target(cpu: str | None) -> str:
    return "portable" if cpu is None else f"cortex-{cpu}"


def _progress(text: str) -> None:
    print(f"{PROGRESS}{text}", flush=True)


def _write(path: Path, record: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    raise SystemExit(main())
