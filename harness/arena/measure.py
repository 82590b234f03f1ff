"""The runner sketch as a loader: one flash, then as many arenas as are asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.arduino.build import Firmware
from harness.arena.lower import Attempt, Outcome, shortfall_of
from harness.errors import UsageError
from harness.model.artifact import ModelArtifact
from harness.pipeline import Bench
from harness.runner.client import Runner
from harness.runner.inference import greet
from harness.runner.info import RunnerFailure
from harness.runner.link import RunnerCrashed

LOAD_TIMEOUT_S = 10.0
"""Loading takes milliseconds; a runtime that crashed says nothing until this is over."""

SEED = 1
"""Of the input that every working arena is run with: the answer must not depend on the arena."""


@dataclass
class RunnerLoader:
    """The runner on the bench's board.  ``flashes`` counts the uploads that were asked for."""

    bench: Bench
    model: ModelArtifact
    progress: Callable[[str], None]
    flashes: int = 0
    resets: int = 0
    _runner: Runner | None = None
    _firmware: Firmware | None = None
    _answer: int | None = field(default=None)

    @property
    def limit_bytes(self) -> int:
        """The largest arena in the runner's block."""
        return self._ready().info.arena_limit_bytes

    @property
    def firmware(self) -> Firmware | None:
        """The runner that was flashed, once it was."""
        return self._firmware

    def attempt(self, size_bytes: int) -> Attempt:
        """Load in ``size_bytes``, and run once where it loads.

        A runtime that crashes is reset for the next attempt.  Raises what the bench raises when
        the way to the board breaks.
        """
        runner = self._ready()
        try:
            loaded = runner.load(size_bytes, timeout_s=LOAD_TIMEOUT_S)
            attempt = self._run(runner, size_bytes, loaded.high_water_bytes)
        except RunnerFailure as failure:
            attempt = Attempt(
                size_bytes,
                Outcome.FAILS,
                used_bytes=failure.used_bytes,
                said=f"{failure.call} failed (0x{failure.code:x})"
                + (f": {failure.detail}" if failure.detail else ""),
                shortfall=shortfall_of(failure.detail),
            )
        except RunnerCrashed as crash:
            attempt = Attempt(size_bytes, Outcome.CRASHES, said=crash.message)
            self._start_anew()
        return attempt

    def _run(self, runner: Runner, size_bytes: int, used_bytes: int) -> Attempt:
        try:
            for index in range(len(runner.info.inputs)):
                runner.seed_input(index, SEED + index)
        except UsageError as error:
            said = f"loaded, not run: {error.message}"
            return Attempt(size_bytes, Outcome.WORKS, used_bytes=used_bytes, said=said)
        runner.run()
        outputs = (runner.output(index) for index in range(len(runner.info.outputs)))
        answer = zlib.crc32(b"".join(outputs))
        if self._answer is None:
            self._answer = answer
        if answer != self._answer:
            said = f"its outputs have CRC-32 {answer:08x}, in the first arena {self._answer:08x}"
            return Attempt(size_bytes, Outcome.WRONG, used_bytes=used_bytes, said=said)
        return Attempt(size_bytes, Outcome.WORKS, used_bytes=used_bytes)

    def _ready(self) -> Runner:
        if self._runner is None:
            firmware = self.bench.runner(self.model)
            self.progress(f"one flash: the runner with the program {self.model.name}")
            session = self.bench.boot(firmware)
            self.flashes += 1
            self._firmware = firmware
            self._runner = greet(session, firmware.nonce, self.model)
        return self._runner

    def _start_anew(self) -> None:
        assert self._firmware is not None
        station = self.bench.station()
        station.reset()
        self.resets += 1
        self._runner = greet(station.session, self._firmware.nonce, self.model)
