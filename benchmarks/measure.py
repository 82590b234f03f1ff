"""What the benchmarks share: own folders, timed runs of ``hil``, ratios with a target."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import paths, process
from harness.clock import monotonic_s
from harness.errors import ToolError

ROOT = Path(__file__).resolve().parents[1]
LONGEST_S = 7200.0


@dataclass(frozen=True)
class Home:
    """Folders of one measurement, and the environment that makes the bench use them."""

    folder: Path
    env: Mapping[str, str]

    @property
    def cache(self) -> Path:
        """The bench's cache in this measurement."""
        return Path(self.env["HIL_CACHE"])

    @property
    def run_dir(self) -> Path:
        """Where the boards of this measurement are plugged in."""
        return Path(self.env["HIL_RUN_DIR"])


@contextmanager
def home(*, cold: bool) -> Iterator[Home]:
    """Folders that go away afterwards.

    With ``cold`` the cache is empty but for what belongs to the installation: arduino-cli, and the
    bytecode that Python keeps beside its packages unless it is told not to.
    """
    with tempfile.TemporaryDirectory(prefix="hilbench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        cache = paths.cache_dir()
        if cold:
            own = folder / "cache"
            own.mkdir()
            for name in ("arduino-cli", "bytecode"):
                (cache / name).mkdir(parents=True, exist_ok=True)
                (own / name).symlink_to(cache / name)
            cache = own
        run_dir = folder / "run"
        run_dir.mkdir()
        yield Home(
            folder,
            {
                **os.environ,
                "HIL_CACHE": str(cache),
                "HIL_RUN_DIR": str(run_dir),
                "PYTHONPATH": os.pathsep.join(
                    filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))
                ),
            },
        )


def processor_s() -> float:
    """Processor seconds of every child that has ended and been waited for, theirs included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(
    argv: Sequence[str], env: Mapping[str, str], *, codes: Sequence[int] = (0,), cwd: Path = ROOT
) -> tuple[float, process.Completed]:
    """Seconds that a command took from start to end, and what it left.

    Raises :class:`ToolError` with its last lines when it ends with another code than ``codes``.
    """
    began_s = monotonic_s()
    done = process.run(argv, timeout_s=LONGEST_S, env=env, cwd=cwd)
    took_s = monotonic_s() - began_s
    if done.returncode not in codes:
        raise ToolError(
            f"{' '.join(argv[:6])!r} ended with exit code {done.returncode}",
            remedy="a benchmark of something that does not work says nothing: mend it first",
            evidence=done.tail(25),
        )
    return took_s, done


def hil(*words: str) -> tuple[str, ...]:
    """The command line of ``hil`` with this interpreter."""
    return (sys.executable, "-m", "harness.cli", *words)


def verdicts(out: Path) -> dict[str, int]:
    """How often each verdict occurs in a run's record."""
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    counts: dict[str, int] = {}
    for case in record["cases"]:
        kind = str(case["verdict"])
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def middle(seconds: Sequence[float]) -> float:
    """The median: one disturbed run of several does not move it."""
    return statistics.median(seconds)


def show(title: str, rows: Sequence[tuple[str, float]]) -> None:
    """A table of names and seconds, with the machine's load beside it."""
    print(f"\n{title}   (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors)")
    for name, seconds in rows:
        print(f"  {name:<58} {seconds:9.2f} s")
    sys.stdout.flush()


def judge(what: str, ratio: float, target: float, *, at_most: bool) -> int:
    """Print a ratio beside its target; 0 when it is met, else 1."""
    met = ratio <= target if at_most else ratio >= target
    limit = "at most" if at_most else "at least"
    print(f"  {what}: {ratio:.2f} x, target {limit} {target:g} x: {'met' if met else 'MISSED'}")
    sys.stdout.flush()
    return 0 if met else 1
