"""The whole of a run on one screen; every stage is a module, and arrows only point down.

    board > library > model > preflight > sketch > build > footprint > upload > session > verdict

A :class:`Bench` is what a test run holds: one board, one library, one place for evidence.  Each
method is one stage or a short chain of them, and each marks the errors that leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness import process
from harness.arduino import build, footprint, sketch
from harness.arduino.build import Firmware, LinkLibrary
from harness.arduino.cli import ArduinoCli, open_cli
from harness.arduino.core_home import open_core
from harness.arduino.precompiled import link_library
from harness.arduino.sketch import Sketch
from harness.boards.board import Board, CoreVersion, Lane
from harness.desk.desk import Desk, Wanted
from harness.desk.station import Station
from harness.errors import CapabilityMissing, DutFailure, HilError, in_stage
from harness.heartbeat import heartbeat
from harness.library.resolve import Library, resolve_library
from harness.machine.config import how_to_configure
from harness.model import ahead
from harness.model import export as model
from harness.model.export import ExportTarget, ModelArtifact
from harness.paths import cache_dir
from harness.preflight import check as preflight
from harness.preflight.check import PreflightResult
from harness.preflight.finding import PreflightVerdict
from harness.preflight.registration import read_registration
from harness.preflight.require import require_ok
from harness.runner import build as runner_build
from harness.serial.session import Session
from harness.storage.room import require_room


@dataclass(frozen=True)
class Request:
    """What a run was asked for."""

    board: Board
    core_version: CoreVersion
    executorch: Path | None = None
    library: Path | None = None
    root_ops: str | None = None
    all_ops: bool = False
    port: str | None = None
    serial_number: str | None = None
    virtual: bool = False
    """A hardware board's stand-in instead of the board."""

    behave: Path | None = None
    """File that says how the stand-in misbehaves."""


@dataclass
class Bench:
    """One board and one library under test, with every stage's result kept for the next case.

    ``step`` is what a stage is wrapped in: a report may show it as a step.  ``models_ahead`` are
    those that the run will ask for: their exports begin while the library compiles.  ``made`` is
    told of every firmware, model and example as it is used, for the run's record.  ``when_linked``
    is called once, when the library is ready, in a run that found its models missing.
    ``plugs_in_ahead``: what is built will be run, so a virtual board is plugged in meanwhile.
    """

    request: Request
    desk: Desk
    progress: Callable[[str], None]
    step: Callable[[str], AbstractContextManager[None]] = lambda name: nullcontext()  # noqa: ARG005
    models_ahead: Sequence[str] = ()
    made: Callable[[str, object], None] = lambda kind, value: None  # noqa: ARG005
    when_linked: Callable[[Bench], None] = lambda bench: None  # noqa: ARG005
    plugs_in_ahead: bool = False
    _cli: ArduinoCli | None = None
    _library: Library | None = None
    _library_known: bool = False
    _linked: LinkLibrary | None = None
    _exported: bool = False
    _begun_cold: bool = False
    _artifacts: dict[tuple[str, str], ModelArtifact] = field(default_factory=dict)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with self.step(name), in_stage(name):
            yield

    @property
    def board(self) -> Board:
        """The board of this run."""
        return self.request.board

    @property
    def cli(self) -> ArduinoCli:
        """The bench's arduino-cli."""
        if self._cli is None:
            with self._stage("build"):
                require_room(cache_dir())
                request = self.request
                if self.board.lane is Lane.HARDWARE:
                    self._cli = open_core(self.board, request.core_version, virtual=request.virtual)
                else:
                    self._cli = open_cli()
        return self._cli

    def library(self) -> Library:
        """The library under test; raises :class:`CapabilityMissing` where there is none."""
        if not self._library_known:
            self._export_ahead()
            with self._stage("library"):
                self._library = resolve_library(
                    executorch=self.request.executorch,
                    library=self.request.library,
                    root_ops=self.request.root_ops,
                    all_ops=self.request.all_ops,
                    lane=self.board.lane,
                    progress=self.progress,
                )
            self._library_known = True
        if self._library is None:
            raise CapabilityMissing(
                f"board {self.board.name!r} needs the Arduino library",
                remedy="give --executorch DIR (an ExecuTorch checkout) or --library DIR|ZIP",
            )
        return self._library

    def linked(self) -> LinkLibrary:
        """The library, compiled once for this board."""
        library = self.library()
        if self._linked is None:
            compiled = cache_dir() / "build" / self.board.name / "library"

            def state() -> str:
                return f"{sum(1 for _ in compiled.rglob('*.o'))} objects in its build folder"

            with self._stage("library"), heartbeat(self.progress, state):
                self._linked = link_library(self.cli, self.board, library, progress=self.progress)
            if self._begun_cold:
                self.when_linked(self)
        return self._linked

    def target(self) -> ExportTarget:
        """What models are lowered for: the board's core, or portable kernels only."""
        if self.board.lane is not Lane.HOST:
            return ExportTarget("cortex-m", self.board.core.removeprefix("cortex-"))
        if self.request.executorch is None and self.request.library is None:
            return ExportTarget("portable", None)
        # CMSIS-NN compiled natively takes its scalar paths, as on a core without DSP.
        return ExportTarget("cortex-m", "m3")

    def model(self, name: str, target: ExportTarget | None = None) -> ModelArtifact:
        """The exported model called ``name``, lowered for this board unless ``target`` is given."""
        target = target or self.target()
        if name not in model.model_names(self.request.executorch):
            raise CapabilityMissing(
                f"model {name!r} comes from an ExecuTorch checkout", remedy=how_to_configure()
            )
        wanted = (name, target.label)
        if wanted not in self._artifacts:
            with self._stage("model"):
                self._artifacts[wanted] = model.export_model(
                    name, target, checkout=self.request.executorch, progress=self.progress
                )
        self.made("model", self._artifacts[wanted])
        return self._artifacts[wanted]

    def export_all(self, names: Sequence[str]) -> None:
        """Export these models together, once: they share the seconds that importing torch takes.

        A failure is not raised here but by :meth:`model`, for the model that it belongs to.
        """
        if not self._exported:
            self._exported = True
            wanted = self._known(names)
            with suppress(HilError):
                model.export_models(
                    wanted, checkout=self.request.executorch, progress=self.progress
                )

    def preflight_result(self, program: bytes, *, feeder: preflight.Feeder) -> PreflightResult:
        """What would be wrong with this program on this board, with this library."""
        library = self.library()
        with self._stage("preflight"):
            wheel = library.provenance.origin == "wheel"
            return preflight.preflight(
                program,
                registration=None if wheel else read_registration(library.path),
                tier=None if wheel else self.board.tier,
                flash_bytes=self.request.core_version.flash_bytes,
                ram_bytes=self.request.core_version.ram_bytes,
                feeder=feeder,
            )

    def _export_ahead(self) -> None:
        named = self.request.executorch or self.request.library
        if named is None and self.board.lane is not Lane.HOST:
            return  # No library: every case with a model will be skipped.
        child = ahead.begin(self._known(self.models_ahead), checkout=self.request.executorch)
        if child is not None:
            self._begun_cold = True
            self.desk.on_close(lambda: process.end(child))

    def _known(self, names: Sequence[str]) -> list[tuple[str, ExportTarget]]:
        known = set(model.model_names(self.request.executorch))
        return [(name, self.target()) for name in names if name in known]

    def check(self, program: bytes, *, what: str, feeder: preflight.Feeder) -> None:
        """Preflight: raises :class:`DutFailure` for a program that cannot work on this board."""
        result = self.preflight_result(program, feeder=feeder)
        with in_stage("preflight"):
            require_ok(result, what=what)

    def runner(self, artifact: ModelArtifact) -> Firmware:
        """The runner sketch with this model in it.

        Raises :class:`CapabilityMissing` for a model of the bench's that this board has no RAM for.
        """
        # Before preflight, for which a program that does not fit is wrong: this one is only large.
        runner_build.arena_bytes(artifact, self.board, self.request.core_version)
        self.check(artifact.pte.read_bytes(), what=f"model {artifact.name!r}", feeder="runner")
        library = self.library()
        return self._build(
            runner_build.runner_sketch(artifact),
            with_library=True,
            headers=lambda nonce: runner_build.headers(
                nonce, artifact, library, self.board, self.request.core_version
            ),
        )

    def firmware(self, source: Sketch, *, with_library: bool = True) -> Firmware:
        """Any other sketch, preflighted when it carries a model."""
        with self._stage("sketch"):
            sketch.require_model(source)
        if "model.h" in source.files:
            self.check(
                preflight.program_of_header(source.files["model.h"]),
                what=f"the model of sketch {source.name!r}",
                feeder="etmodel" if b"ETModel" in source.files[f"{source.name}.ino"] else "none",
            )
        return self._build(source, with_library=with_library)

    def _build(
        self,
        source: Sketch,
        *,
        with_library: bool,
        headers: Callable[[str], Mapping[str, bytes]] = lambda nonce: {},  # noqa: ARG005
    ) -> Firmware:
        linked = self.linked() if with_library else None
        if self.plugs_in_ahead:
            self.desk.expect(self._wanted())
        with self._stage("build"):
            firmware = build.compile_sketch(
                self.cli, self.board, source, linked, headers=headers, progress=self.progress
            )
        if self.board.linux_side is None:
            with self._stage("footprint"):
                footprint.check_ceilings(
                    firmware.footprint, self.request.core_version, board=self.board.name
                )
        # Another core's packaging changes its ceilings without a word: an alert, not a failure.
        for alert in firmware.alerts:
            self.progress(alert)
        self.made("firmware", firmware)
        return firmware

    def _wanted(self) -> Wanted:
        return Wanted(
            self.board,
            self.request.core_version,
            virtual=self.request.virtual,
            address=self.request.port,
            serial_number=self.request.serial_number,
            behave=self.request.behave,
        )

    def station(self) -> Station:
        """The board with its port open."""
        with in_stage("board"):
            return self.desk.station(self._wanted(), self.cli)

    def boot(self, firmware: Firmware) -> Session:
        """Upload and start it; the port was open before and stays open after."""
        with self._stage("upload"):
            station = self.station()
            station.flash(self.cli, firmware)
            station.session.mark("boot", firmware=firmware.key)
        return station.session

    def example(self, name: str) -> Sketch:
        """One of the library's own example sketches, unmodified."""
        library = self.library()
        if library.provenance.origin == "wheel":
            raise CapabilityMissing(
                f"the wheel's runtime has no example {name!r}",
                remedy="give --executorch DIR to run upstream's example sketches",
            )
        folder = library.path / "examples" / name
        if not folder.is_dir():
            raise DutFailure(
                f"the library has no example {name!r}",
                remedy="check the checkout's examples/arduino/examples",
            )
        return sketch.read_sketch(folder)

    def suited_example(self, name: str, model_name: str) -> tuple[Sketch, ModelArtifact | None]:
        """The example with the model it ships, or, where that was lowered for another core, with
        ``model_name`` lowered for this one, which is then returned as well.
        """
        shipped = self.example(name)
        sketch.require_model(shipped)
        program = preflight.program_of_header(shipped.files["model.h"])
        result = self.preflight_result(program, feeder="etmodel")
        if result.verdict is not PreflightVerdict.TARGET_SKEW:
            self.made("example", (name, None))
            return shipped, None
        artifact = self.model(model_name)
        self.progress(
            f"the model that {name} ships was lowered for another core: it runs with"
            f" {model_name!r} lowered for {artifact.target.label}"
        )
        self.made("example", (name, artifact))
        return shipped.with_files({"model.h": artifact.header.read_bytes()}), artifact
