"""A bench whose every stage answers from a recorded run, so that the same cases can judge it again.

It overrides every public method of :class:`~harness.pipeline.Bench`: nothing is built, exported,
plugged in or looked for.  Models, firmware and examples come in the order in which the recorded
case got them; what a case asks for that the recording does not have ends it as *not judged*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from harness.arduino.build import Firmware, LinkLibrary
from harness.arduino.cli import ArduinoCli
from harness.arduino.footprint import Footprint
from harness.arduino.port import Port
from harness.arduino.sketch import Sketch
from harness.boards.board import find_board
from harness.desk.desk import Desk, Wanted
from harness.desk.station import Station
from harness.errors import HilError
from harness.evidence.plain import Plain
from harness.evidence.player import CannotReplay, NotRecorded, Player
from harness.evidence.replay_session import ReplaySession
from harness.evidence.run_folder import RecordedCase, RunFolder
from harness.library.provenance import from_json
from harness.library.resolve import Library
from harness.model.artifact import ExportTarget, ModelArtifact, read_artifact
from harness.pipeline import Bench, Request
from harness.preflight.check import Feeder, PreflightResult
from harness.serial.session import Session


@dataclass(frozen=True)
class RecordedSketch(Sketch):
    """A sketch of which only the name is known; its firmware is recorded whole."""

    def with_files(self, extra: object) -> RecordedSketch:
        """The same: what was changed in it went into the firmware that is recorded next."""
        del extra
        return self

    def replacing(self, old: str, new: str) -> RecordedSketch:
        """The same, as :meth:`with_files`."""
        del old, new
        return self


@dataclass
class ReplayStation(Station):
    """The board of a recorded run: it starts again where the recording has it start."""

    player: Player
    replay: ReplaySession

    def flash(self, cli: ArduinoCli, firmware: Firmware) -> None:
        """Go to where the recorded board had started; raises :class:`CannotReplay`."""
        del cli
        self.start(firmware)

    def start(self, firmware: Firmware) -> None:
        """As :meth:`flash`."""
        self.running = None
        facts = self._go("boot", before=None)
        key = facts.text("firmware")
        if key != firmware.key:
            raise self.player.refuse(
                f"the case starts firmware {firmware.key[:16]!r} and the recorded run {key[:16]!r}"
            )
        self.running = firmware

    def reset(self) -> None:
        """Go to where the recorded board was reset."""
        self._go("reset", before="boot")

    def _go(self, kind: str, *, before: str | None) -> Plain:
        place = self.player.next_of(kind, before=before)
        if place is None:
            raise self.player.refuse(f"the recording has no {kind} of the board here")
        facts = self.player.recording.entries[place].facts
        assert facts is not None, "a mark has facts"
        self.replay.go_to(place + 1, facts=facts)
        return facts

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotRecorded(
            f"the case asks for {name!r} of the board, which is no part of a recording",
            remedy="run it on a board",
        )

    def require_alive(self) -> None:
        """What was seen of the board is in the recording."""

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class ReplayDesk(Desk):
    """Has the one station of a replay from the start."""

    def station(self, wanted: Wanted, cli: ArduinoCli) -> Station:
        """The recorded board's."""
        del wanted, cli
        assert self._station is not None
        return self._station

    def put(self, station: Station) -> None:
        """Set the station."""
        self._station = station

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class ReplayBench(Bench):
    """Made by :func:`open_bench`; :meth:`begin` and the case's end bound what is played."""

    run: RunFolder = field(kw_only=True)
    player: Player = field(kw_only=True)
    place: ReplayStation = field(kw_only=True)
    _made: list[Plain] = field(default_factory=list)
    _given: list[Plain] = field(default_factory=list)

    def begin(self, case: RecordedCase) -> None:
        """Put board, bench and clock where they were when ``case`` began."""
        self.player.bound(case.first, case.last)
        self.place.replay.go_to(self.player.place(case.first))
        opening = self.player.peek()
        if opening is not None and opening.kind == "case":
            self.place.replay.go_to(self.player.at + 1, facts=opening.facts)
        self._made, self._given = list(case.made), []
        self.place.running = None if case.running is None else self._firmware_of(case.running)

    @property
    def cli(self) -> ArduinoCli:
        """There is none."""
        raise self._lacks("arduino-cli")

    def library(self) -> Library:
        """The recorded provenance; its files are not part of a run."""
        record = self.run.record
        plain = record.part("provenance").part("library") if record is not None else None
        if plain is None or not plain.content:
            raise self._lacks("the library")
        try:
            provenance = from_json(plain.content)
        except ValueError as error:
            raise self._lacks(f"a readable library record ({error})") from error
        return Library(Path("recorded"), "ExecuTorch", provenance, ())

    def linked(self) -> LinkLibrary:
        """There is none."""
        raise self._lacks("the compiled library")

    def target(self) -> ExportTarget:
        """What the recorded models were lowered for cannot be asked before one is used."""
        raise self._lacks("what models are lowered for")

    def model(self, name: str, target: ExportTarget | None = None) -> ModelArtifact:
        """The recorded model, with the golden cases that lie in the run's folder."""
        del target
        for each in (*self._made, *self._given):
            if each.content.get("kind") == "model" and each.content.get("name") == name:
                self._give(each)
                return self._artifact(each.text("folder"))
        raise self._lacks(f"model {name!r}")

    def export_all(self, names: Sequence[str]) -> None:
        """They are there already."""
        del names

    def preflight_result(self, program: bytes, *, feeder: Feeder) -> PreflightResult:
        """There is none: it was done before the firmware that is recorded was built."""
        del program, feeder
        raise self._lacks("a preflight")

    def check(self, program: bytes, *, what: str, feeder: Feeder) -> None:
        """As :meth:`preflight_result`."""
        del program, what, feeder
        raise self._lacks("a preflight")

    def runner(self, artifact: ModelArtifact) -> Firmware:
        """The recorded runner."""
        del artifact
        return self._firmware("runner")

    def firmware(self, source: Sketch, *, with_library: bool = True) -> Firmware:
        """The next recorded firmware of a sketch of that name."""
        del with_library
        return self._firmware(source.name)

    def station(self) -> Station:
        """The recorded board's."""
        return self.place

    def boot(self, firmware: Firmware) -> Session:
        """Go to where the recorded board had started ``firmware``."""
        self.place.start(firmware)
        return self.place.session

    def example(self, name: str) -> Sketch:
        """An example of which only the name is known."""
        return RecordedSketch(name, Path("recorded") / name, {})

    def suited_example(self, name: str, model_name: str) -> tuple[Sketch, ModelArtifact | None]:
        """The example and the model that replaced its own when the run was recorded."""
        del model_name
        for each in self._made:
            if each.content.get("kind") == "example" and each.content.get("name") == name:
                self._give(each)
                folder = each.text_or_none("model")
                return self.example(name), None if folder is None else self._artifact(folder)
        raise self._lacks(f"example {name!r}")

    def _give(self, each: Plain) -> None:
        if each in self._made:
            self._made.remove(each)
            self._given.append(each)

    def _firmware(self, sketch: str) -> Firmware:
        for each in self._made:
            if each.content.get("kind") == "firmware" and each.content.get("sketch") == sketch:
                self._give(each)
                return _firmware(each, self.board.name)
        raise self._lacks(f"a firmware of sketch {sketch!r}")

    def _firmware_of(self, key: str) -> Firmware | None:
        for case in self.run.cases:
            for each in case.made:
                if each.content.get("kind") == "firmware" and each.content.get("key") == key:
                    return _firmware(each, self.board.name)
        return None

    def _artifact(self, name: str) -> ModelArtifact:
        folder = (self.run.path / name).resolve()
        if self.run.path.resolve() not in folder.parents:
            raise self._lacks(f"a model in its own folder: {name[:80]!r} lies outside")
        try:
            return read_artifact(folder)
        except HilError as error:
            raise self.player.refuse(error.message) from error

    def _lacks(self, what: str) -> CannotReplay:
        return self.player.refuse(f"the case asks for {what}, which the recording does not have")


def _had_stand_in(run: RunFolder) -> bool:
    options = {"--virtual", "--hil-virtual"}
    return bool(run.begun.text_or_none("stand_in") or options & set(run.begun.texts("command")))


def _firmware(plain: Plain, board: str) -> Firmware:
    sizes = plain.part("footprint")
    names = ("flash_bytes", "flash_max_bytes", "ram_bytes", "ram_max_bytes")
    sketch = plain.text("sketch")
    folder = Path("recorded")
    return Firmware(
        sketch=sketch,
        board=board,
        core_version=plain.text("core_version"),
        key=plain.text("key"),
        nonce=plain.text("nonce"),
        folder=folder,
        elf=folder / f"{sketch}.ino.elf",
        footprint=Footprint(*(sizes.count(name) for name in names)),
        command=plain.texts("command"),
        library=plain.text_or_none("library"),
        cached=True,
    )


def open_bench(run: RunFolder, progress: Callable[[str], None]) -> ReplayBench:
    """A bench that plays ``run``.

    Raises :class:`UsageError` when this bench does not know the run's board or core version, and
    :class:`Damaged` when the run does not name them.
    """
    board = find_board(run.begun.text("board"))
    core = board.core_version(run.begun.text("core_version"))
    player = Player(run.recording)
    session = ReplaySession(player)
    station = ReplayStation(
        board, Port("replay", "", "", "", board.name), session, progress, player, session
    )
    desk = ReplayDesk(None)
    desk.put(station)
    return ReplayBench(
        Request(board, core, virtual=_had_stand_in(run)),
        desk,
        progress,
        run=run,
        player=player,
        place=station,
    )
