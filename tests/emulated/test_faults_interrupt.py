"""Ctrl-C in every stage of a real ``hil test``: an end of its own, evidence, nothing left."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.machine.tool import find_arduino_cli
from harness.report.verdict import EXIT_INTERRUPTED, EXIT_PASSED
from tests.child_run import HIL, ChildBench, Outcome
from tests.contract.fake_checkout import FakeCheckout

NO_CHECKOUT = {"HIL_EXECUTORCH": "", "HIL_CONFIG": "/dev/null"}
CASES = "tests/emulated/fault_cases.py"


def interrupted(
    child: ChildBench,
    board: str,
    *words: str,
    when: Callable[[], bool],
    number: signal.Signals = signal.SIGINT,
) -> Outcome:
    argv = (*HIL, "test", board, "--out", str(child.out), *words)
    run = child.interrupt(argv, when=when, number=number)
    assert run.code == EXIT_INTERRUPTED, run.shown
    assert run.record["interrupted"] is True
    assert f"interrupted: {run.record['interrupted_in']}; it and what comes after it" in run.shown
    assert run.record["cases"] == [], "a test that was cut off has no verdict"
    assert "INTERNALERROR" not in run.shown
    return run


def blocking(path: Path, mark: Path, pattern: str, then: str) -> None:
    """A program that stands in front of ``then`` and blocks when its arguments match."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\ncase " $* " in {pattern}) touch "{mark}"; sleep 300 ;; esac\n'
        f'exec "{then}" "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)


def first_on_path(child: ChildBench, folder: Path, **extra: str) -> ChildBench:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return replace(child, extra={**child.extra, "PATH": path, **extra})


def require_next_run_works(child: ChildBench, tmp_path: Path) -> None:
    after = replace(child, out=tmp_path / "after", extra={})
    run = after.run((*HIL, "test", "m33", "--out", str(after.out), "-k", "test_echo"))
    assert run.code == EXIT_PASSED, run.shown


def test_while_the_library_is_assembled(child: ChildBench, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    checkout = FakeCheckout(tmp_path / "checkout")
    checkout.script(f'#!/bin/bash\ntouch "{mark}"\nsleep 300\n')
    checkout.commit()
    run = interrupted(
        child,
        "m33",
        *("--executorch", str(checkout.path), "-k", "test_it_compiles_and_fits and AddModel"),
        when=mark.exists,
    )
    assert "AddModel" in run.record["interrupted_in"]


def test_while_a_model_is_exported(child: ChildBench, tmp_path: Path) -> None:
    # A cache of its own, or the model would be there; the wheel's runtime takes a second.
    own = replace(
        child,
        extra={"HIL_CACHE": str(tmp_path / "cache"), "HIL_CONFIG": "/dev/null", **NO_CHECKOUT},
    )

    def exporting() -> bool:
        return any("harness.model.worker" in each for each in child.processes())

    run = interrupted(own, "host", "-k", "test_models and fits and add", when=exporting)
    assert "[add]" in run.record["interrupted_in"]
    left = list((tmp_path / "cache" / "model").rglob("*.pte"))
    assert left == [], "half an export must not be kept"


def test_while_a_sketch_is_compiled(child: ChildBench, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    compiler = shutil.which("arm-none-eabi-g++")
    if compiler is None:
        pytest.skip("arm-none-eabi-g++ is not installed")
    blocking(tmp_path / "bin" / "arm-none-eabi-g++", mark, "*silent.ino.cpp.o*", compiler)
    slow = first_on_path(child, tmp_path / "bin", FAULT_MARK=str(mark))
    run = interrupted(slow, "m33", "-k", "test_hang_build", "--", CASES, when=mark.exists)
    assert "compiling silent for m33" in run.shown
    require_next_run_works(child, tmp_path)


def test_while_a_board_is_flashed(child: ChildBench, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    tool, cli = tmp_path / "tool" / "python3", find_arduino_cli()
    blocking(tool, mark, "*upload.py*", shutil.which("python3") or "python3")
    swap = tmp_path / "bin" / "arduino-cli"
    swap.parent.mkdir()
    swap.write_text(
        f'#!/bin/sh\ncase " $* " in *" upload "*) export PATH="{tool.parent}:$PATH" ;;'
        f' esac\nexec "{cli}" "$@"\n',
        encoding="utf-8",
    )
    swap.chmod(0o755)
    slow = first_on_path(child, tmp_path / "bin")
    run = interrupted(slow, "m33", "-k", "test_echo", when=mark.exists)
    assert run.said == b""
    require_next_run_works(child, tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_the_board_is_listened_to(
    child: ChildBench, tmp_path: Path, number: signal.Signals
) -> None:
    mark = tmp_path / "mark"
    listening = replace(child, extra={"FAULT_MARK": str(mark)})
    words = ("-k", "test_hang_session", "--", CASES)
    run = interrupted(listening, "m33", *words, when=mark.exists, number=number)
    assert run.record["interrupted_in"].endswith("::test_hang_session")
    assert "serial/serial.jsonl" in run.record["files"]
    if number is signal.SIGINT:
        require_next_run_works(child, tmp_path)
