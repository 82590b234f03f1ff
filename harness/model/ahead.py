"""Exports begun in the background, while the library compiles: ``python -m harness.model.ahead``.

An export keeps one processor busy for seconds, and much of a compile's beginning and end leaves
one idle.  The child fills the cache and says nothing: who needs a model asks for it as ever, waits
for the lock if the child is still at it, and meets a failure in its own call.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from harness import process
from harness.errors import HilError
from harness.model.child import environment
from harness.model.export import ExportTarget, export_models, missing_models


def begin(
    wanted: Sequence[tuple[str, ExportTarget]], *, checkout: Path | None
) -> process.Process | None:
    """Start exporting what is not in the cache; None when all of it is, or nothing can be told.

    The caller owns the child and must :func:`harness.process.end` it.
    """
    with suppress(HilError):
        missing = missing_models(wanted, checkout=checkout)
        if missing:
            request = {
                "checkout": None if checkout is None else str(checkout.resolve()),
                "exports": [[name, target.kind, target.cpu] for name, target in missing],
            }
            argv = (sys.executable, "-m", "harness.model.ahead", json.dumps(request))
            nowhere = process.DEVNULL
            return process.spawn(
                argv, env=environment(), stdout=nowhere, stderr=nowhere, guarded=True
            )
    return None


POLITE = 10
"""Added to its nice value: the child fills the gaps that compilers leave and takes nothing away."""


def main(request: str) -> int:
    """Export what ``request`` asks for; 1 when something failed, or nobody waits any more."""
    parent = os.getppid()

    def look(_: str) -> None:
        if os.getppid() != parent:
            raise SystemExit(1)

    wanted = json.loads(request)
    checkout = wanted["checkout"]
    try:
        export_models(
            [(name, ExportTarget(kind, cpu)) for name, kind, cpu in wanted["exports"]],
            checkout=None if checkout is None else Path(checkout),
            progress=look,
        )
    except (HilError, KeyboardInterrupt):
        return 1
    return 0


if __name__ == "__main__":
    os.nice(POLITE)
    sys.exit(main(sys.argv[1]))
