"""Runs of the bench in a process of their own, and what each must leave behind: nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import process
from harness.clock import Deadline, pause

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 240.0

# A process that a shell started in the background ignores SIGINT, and so would its children.
_RESTORE = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)
_HEAR_CTRL_C = (sys.executable, "-c", _RESTORE)
HIL = (sys.executable, "-m", "harness.cli")
PYTEST = (sys.executable, "-m", "pytest")


@dataclass(frozen=True)
class Outcome:
    """What a finished run left: exit code, its terminal output, and its folder."""

    code: int
    shown: str
    out: Path

    @property
    def record(self) -> dict[str, Any]:
        """The run's ``run.json``."""
        content: dict[str, Any] = json.loads((self.out / "run.json").read_text(encoding="utf-8"))
        return content

    def case(self, name: str) -> dict[str, Any]:
        """The one case whose test id ends with ``name``."""
        found = [each for each in self.record["cases"] if each["nodeid"].endswith(name)]
        assert len(found) == 1, f"{name!r}: {[each['nodeid'] for each in self.record['cases']]}"
        case: dict[str, Any] = found[0]
        return case

    @property
    def said(self) -> bytes:
        """Everything that the board sent in this run."""
        path = self.out / "serial" / "serial.rx.bin"
        return path.read_bytes() if path.is_file() else b""


@dataclass(frozen=True)
class ChildBench:
    """Starts runs that share nothing with others but the cache."""

    run_dir: Path
    out: Path
    extra: Mapping[str, str]

    def environment(self) -> dict[str, str]:
        """The child's environment."""
        own = {"HIL_RUN_DIR": str(self.run_dir), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
        return {**os.environ, **own, **self.extra}

    def run(
        self, argv: Sequence[str], *, cwd: Path = ROOT, timeout_s: float = TIMEOUT_S
    ) -> Outcome:
        """Run to the end and see that nothing is left."""
        done = process.run(argv, timeout_s=timeout_s, cwd=cwd, env=self.environment())
        self.require_clean()
        return Outcome(done.returncode, done.stdout + done.stderr, self.out)

    def interrupt(
        self,
        argv: Sequence[str],
        *,
        when: Callable[[], bool],
        number: signal.Signals = signal.SIGINT,
    ) -> Outcome:
        """Start, send a signal to that process alone once ``when`` holds, and wait for its end."""
        shown = self.out.with_name(f"{self.out.name}.txt")
        with shown.open("wb") as stream:
            child = process.spawn(
                (*_HEAR_CTRL_C, *argv),
                cwd=ROOT,
                env=self.environment(),
                stdout=stream,
                stderr=stream,
            )
            try:
                wait_until(lambda: when() or child.poll() is not None, TIMEOUT_S)
                assert child.poll() is None, shown.read_text(errors="replace")
                os.kill(child.pid, number)
                wait_until(lambda: child.poll() is not None, 30)
                code = child.wait()
            finally:
                process.end(child)
        self.require_clean()
        return Outcome(code, shown.read_text(encoding="utf-8", errors="replace"), self.out)

    def require_clean(self) -> None:
        """No process of the run is left, and no board is plugged in by it."""
        # A board leased to the run sees its end within a quarter of a second.
        deadline = Deadline.after(5)
        while (left := self.processes()) and not deadline.expired:
            pause(0.05)
        assert not left, f"still running: {left}"
        boards = self.run_dir / "boards"
        names = [each.name for each in boards.iterdir()] if boards.is_dir() else []
        assert [name for name in names if name != ".lock"] == []

    def processes(self) -> list[str]:
        """Command lines of every process that runs with this run's folder in its environment."""
        mark = f"HIL_RUN_DIR={self.run_dir}\0".encode()
        found = []
        for folder in Path("/proc").iterdir():
            with suppress(OSError):
                if not folder.name.isdigit() or int(folder.name) == os.getpid():
                    continue
                if mark in (folder / "environ").read_bytes() + b"\0":
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    found.append(b" ".join(words).decode("utf-8", "replace")[:200])
        return found


def wait_until(true: Callable[[], bool], timeout_s: float) -> None:
    """Look until it holds."""
    deadline = Deadline.after(timeout_s)
    while not true():
        assert not deadline.expired, "this did not become true in time"
        pause(0.02)
