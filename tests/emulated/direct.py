"""Builds a sketch with the real arduino-cli and runs it without the bench's emulator.

A failure here is the core's: nothing but the compiler, and QEMU or the system, is involved.
"""

from __future__ import annotations

import os
import selectors
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import process
from harness.arduino.cli import compile_arguments, failure_text, open_cli
from harness.boards.board import Board
from harness.clock import Deadline
from harness.errors import CapabilityMissing

COMPILE_TIMEOUT_S = 120.0
OUTPUT_TIMEOUT_S = 60.0


def need(board: Board) -> None:
    """Skip where the board's tools are not installed."""
    tools = ("g++",) if board.emulation is None else ("arm-none-eabi-g++", "qemu-system-arm")
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    try:
        open_cli()
    except CapabilityMissing as missing:
        pytest.skip(missing.message)


def compile_sketch(
    board: Board, sketch: Path, build_path: Path, *, library: Path | None = None
) -> process.Completed:
    """What ``arduino-cli compile`` left; success is for the caller to judge."""
    arguments = compile_arguments(
        fqbn=board.fqbn,
        sketch=sketch,
        build_path=build_path,
        library=library,
        properties={},
        jobs=2,
    )
    return open_cli().run(arguments, timeout_s=COMPILE_TIMEOUT_S)


def build(board: Board, sketch: Path, build_path: Path, *, library: Path | None = None) -> Path:
    """The ELF file of ``sketch`` for ``board``."""
    done = compile_sketch(board, sketch, build_path, library=library)
    assert done.ok, failure_text(done)
    return build_path / f"{sketch.name}.ino.elf"


def write_sketch(folder: Path, name: str, text: str) -> Path:
    """A sketch folder with one file."""
    sketch = folder / name
    sketch.mkdir()
    (sketch / f"{name}.ino").write_text(text, encoding="utf-8")
    return sketch


class Running:
    """A sketch that runs; ``output`` is everything it has printed so far."""

    def __init__(self, child: process.Process) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self.child = child
        self.output = b""
        self._stdin = child.stdin
        self._stdout = child.stdout
        os.set_blocking(self._stdin.fileno(), False)

    def until(self, wanted: bytes, *, send: bytes = b"") -> bytes:
        """Send ``send`` and read until ``wanted`` was printed; all output so far."""
        deadline = Deadline.after(OUTPUT_TIMEOUT_S)
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if send:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            while send or wanted not in self.output:
                assert not deadline.expired, f"{wanted!r} did not come, only {self.output!r}"
                for key, _ in selector.select(0.1):
                    if key.fileobj is self._stdout:
                        piece = os.read(key.fd, 65536)
                        assert piece, f"the sketch ended before {wanted!r}: {self.output!r}"
                        self.output += piece
                    else:
                        send = send[os.write(key.fd, send) :]
                        if not send:
                            selector.unregister(self._stdin)
        return self.output

    def cpu_ticks(self) -> int:
        """Processor time used so far, in hundredths of a second (Linux only)."""
        stat = Path(f"/proc/{self.child.pid}/stat").read_text(encoding="ascii")
        fields = stat.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


@contextmanager
def running(board: Board, elf: Path) -> Iterator[Running]:
    """Run ``elf`` as the board's chip, or natively, and end it afterwards."""
    if board.emulation is None:
        argv: tuple[str, ...] = (str(elf),)
    else:
        argv = (
            *("qemu-system-arm", "-M", board.emulation.machine, "-kernel", str(elf)),
            *("-nodefaults", "-nic", "none", "-display", "none", "-monitor", "none"),
            *("-serial", "stdio"),
            *("-icount", f"shift={board.emulation.icount_shift},sleep=off"),
        )
    with Path(os.devnull).open("wb") as nowhere:
        child = process.spawn(argv, stdin=process.PIPE, stderr=nowhere)
    try:
        yield Running(child)
    finally:
        process.end(child)
