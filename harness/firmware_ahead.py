"""Firmware built in the background, while the board runs other cases.

``python -m harness.firmware_ahead``.  The runner with a model in it takes a second or two to build
and keeps one processor busy; what the suite does before its first model needs the other one.  The
child fills the cache and says nothing: who needs a firmware asks for it as ever, waits for the lock
if the child is still at it, and meets a failure in its own call.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from harness import process
from harness.boards.board import load_board
from harness.desk.desk import Desk
from harness.errors import HilError
from harness.model.child import environment
from harness.pipeline import Bench, Request


def begin(request: Request, models: Sequence[str]) -> process.Process | None:
    """Start building the runner for each of ``models``; None when there is none.

    The caller owns the child and must :func:`harness.process.end` it.
    """
    if not models:
        return None
    asked = json.dumps(
        {
            "board": str(request.board.path.absolute()),
            "core_version": request.core_version.version,
            "executorch": _text(request.executorch),
            "library": _text(request.library),
            "root_ops": request.root_ops,
            "all_ops": request.all_ops,
            "virtual": request.virtual,
            "models": list(models),
        }
    )
    nowhere = process.DEVNULL
    return process.spawn(
        (sys.executable, "-m", "harness.firmware_ahead", asked),
        env=environment(),
        stdout=nowhere,
        stderr=nowhere,
        guarded=True,
    )


def read_request(asked: str) -> tuple[Request, list[str]]:
    """What :func:`begin` asked for."""
    raw = json.loads(asked)
    board = load_board(Path(raw["board"]))
    request = Request(
        board=board,
        core_version=board.core_version(raw["core_version"]),
        executorch=_path(raw["executorch"]),
        library=_path(raw["library"]),
        root_ops=raw["root_ops"],
        all_ops=raw["all_ops"],
        virtual=raw["virtual"],
    )
    return request, raw["models"]


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def main(asked: str) -> int:
    """Build what was asked for, one after the other; a failure ends only its own."""
    parent = os.getppid()
    request, models = read_request(asked)
    bench = Bench(request, Desk(None), lambda _: None)
    for name in models:
        if os.getppid() != parent:
            return 1
        with suppress(HilError):
            bench.runner(bench.model(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
