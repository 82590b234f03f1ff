"""A stand-in that is plugged in before a run and stays so after it, and the runs that use it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.bench.places import file_stem
from harness.clock import Deadline, pause
from harness.emulator.client import PluggedBoard
from harness.emulator.folder import PluggedRecord
from harness.storage.lock import is_held
from harness.suite_command import UNUSED_PLUGINS
from tests.child_run import HIL, PYTEST, ROOT, ChildBench, Outcome

CASES = (
    *PYTEST,
    "tests/emulated/unoq_cases.py",
    "-q",
    "--hil-board=unoq",
    "--hil-virtual",
    # As 'hil test' does: they take longer to start than the rest of a run.
    *(word for name in UNUSED_PLUGINS for word in ("-p", f"no:{name}")),
)
"""The start of a command line that runs cases of unoq_cases.py."""


@dataclass(frozen=True)
class OnBoard:
    """Runs on one board, by its serial number; ``folder`` receives what they leave."""

    child: ChildBench
    folder: Path
    plugged: PluggedBoard

    @property
    def options(self) -> tuple[str, ...]:
        """What makes ``hil test`` use this very board."""
        return ("--virtual", "--serial-number", self.plugged.serial_number)

    def suite_argv(self, out: Path) -> tuple[str, ...]:
        """The suite's cheapest case."""
        return (*HIL, "test", "unoq", "-k", "test_echo", "--out", str(out), *self.options)

    def case_argv(self, case: str, out: Path) -> tuple[str, ...]:
        """A case of unoq_cases.py."""
        serial_number = f"--hil-serial={self.plugged.serial_number}"
        return (*CASES, "-k", case, serial_number, f"--hil-out={out}")

    def suite(self, name: str) -> Outcome:
        """Run the suite's cheapest case to its end."""
        out = self.folder / name
        argv = self.suite_argv(out)
        done = process.run(argv, timeout_s=240, cwd=ROOT, env=self.child.environment())
        return Outcome(done.returncode, done.stdout + done.stderr, out)

    def start(
        self, argv: tuple[str, ...], log: Path, extra: Mapping[str, str] = {}
    ) -> process.Process:
        """Begin a run; the caller ends it.  Not under a guard: it is killed on purpose."""
        with log.open("wb") as stream:
            return process.spawn(
                argv,
                cwd=ROOT,
                env={**self.child.environment(), **extra},
                stdout=stream,
                stderr=stream,
            )

    def strangers(self) -> list[str]:
        """Processes of this bench that are not the board itself, once they had time to end."""
        deadline = Deadline.after(5)
        while (found := self._others()) and not deadline.expired:
            pause(0.05)
        return found

    def _others(self) -> list[str]:
        board = ("harness.emulator.daemon", "qemu-system-arm", " emulate unoq")
        return [each for each in self.child.processes() if not any(x in each for x in board)]

    def held_by(self) -> bool:
        """Whether a run has the board now."""
        stem = file_stem(self.plugged.serial_number)
        return is_held(self.child.run_dir / "owners" / f"{stem}.lock")


@contextmanager
def plugged_in(run_dir: Path, folder: Path, behave: str = "") -> Iterator[OnBoard]:
    """Plug a board in as a person does; it goes away with this process at the latest."""
    child = ChildBench(run_dir, folder / "out", {})
    argv: tuple[str, ...] = (*HIL, "emulate", "unoq", "--json", "--lease-pid", str(os.getpid()))
    if behave:
        (folder / "behave.toml").write_text(behave)
        argv = (*argv, "--behave", str(folder / "behave.toml"))
    done = process.run(argv, timeout_s=60, cwd=ROOT, env=child.environment())
    assert done.ok, done.stderr
    plugged = PluggedBoard(PluggedRecord(**json.loads(done.stdout)))
    try:
        yield OnBoard(child, folder, plugged)
    finally:
        plugged.unplug()
