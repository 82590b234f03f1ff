"""A board is data: read raw from ``boards/<name>.toml``, then validated into a frozen type.

Field reference: ``boards/README.md``.  A mistake gives the file, the line, the key and, where one
is close, the key that was probably meant.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from harness.boards.schema import Table
from harness.errors import UsageError
from harness.paths import boards_dir


class Lane(Enum):
    """Where a sketch runs."""

    HOST = "host"
    EMULATED = "emulated"
    HARDWARE = "hardware"


class ResetMethod(Enum):
    """How a board is started anew: through its own debugger, by uploading again, by its power."""

    OPENOCD = "openocd"
    UPLOAD = "upload"
    POWER = "power"


class Standing(Enum):
    """How an arena band is known: measured by the bench's means, or only reported by its source.

    A result that contradicts a reported band is shown beside it and fails nothing.
    """

    MEASURED = "measured"
    REPORTED = "reported"


class Tier(Enum):
    """Which kernels a core can use; CMSIS-NN's own three, and none."""

    PORTABLE = "portable"
    SCALAR = "scalar"
    DSP = "dsp"
    MVE = "mve"


@dataclass(frozen=True)
class UsbIdentity:
    """Vendor and product id as arduino-cli prints them, e.g. ``0x1209``."""

    vid: str
    pid: str


@dataclass(frozen=True)
class SerialFacts:
    """What opening and reading the board's port does."""

    baud: int
    opens_before_upload: bool
    resets_on_open: bool
    banner_repeats: bool


@dataclass(frozen=True)
class Budget:
    """Flash and RAM a sketch may take on one core version, in bytes, and where the figure is from.

    ``flash_bytes`` and ``ram_bytes`` are upper limits.  ``measured_*`` are what ``source`` found,
    from which the limits were chosen; they are compared across boards, never asserted.
    """

    sketch: str
    flash_bytes: int
    ram_bytes: int
    measured_flash_bytes: int
    measured_ram_bytes: int
    source: str


@dataclass(frozen=True)
class ArenaBand:
    """Arena sizes of one sketch on one core version, in bytes, by what is known of them."""

    sketch: str
    fails_bytes: tuple[int, ...]
    works_bytes: tuple[int, ...]
    shipped_bytes: int
    untested_bytes: tuple[int, ...]
    standing: Standing
    source: str


@dataclass(frozen=True)
class RequiredLibrary:
    """An Arduino library that sketches need on this core: its name, the least version, the source.

    Versions are compared number by number, as ``0.10.0`` is later than ``0.9.1``.
    """

    name: str
    least_version: str
    source: str


@dataclass(frozen=True)
class CoreVersion:
    """One version of the board's Arduino core: ceilings as the build reports them, in bytes.

    ``size_recipe`` names what counts flash and RAM: figures of different ones are not compared.
    ``serial_is`` is what a sketch's ``Serial`` is, for people.
    """

    version: str
    flash_bytes: int
    ram_bytes: int
    stack_bytes: int
    heap_bytes: int
    size_recipe: str
    serial_is: str
    source: str
    libraries: tuple[RequiredLibrary, ...]
    budgets: tuple[Budget, ...]
    arenas: tuple[ArenaBand, ...]

    def budget(self, sketch: str) -> Budget | None:
        """The budget of ``sketch``, or None where the data has none."""
        return next((budget for budget in self.budgets if budget.sketch == sketch), None)

    def arena(self, sketch: str) -> ArenaBand | None:
        """The arena band of ``sketch``, or None where the data has none."""
        return next((arena for arena in self.arenas if arena.sketch == sketch), None)


@dataclass(frozen=True)
class LinuxSide:
    """The Linux computer on the board that holds its debugger and its serial route.

    ``openocd`` is run there with each of ``script_dirs`` as ``-s`` and ``config`` as ``-f``;
    ``sketch_address`` is where an upload writes; ``router_service`` is the systemd unit between
    the microcontroller's UART and USB.
    """

    openocd: str
    script_dirs: tuple[str, ...]
    config: str
    sketch_address: int
    router_service: str
    source: str


@dataclass(frozen=True)
class Emulation:
    """How QEMU stands in for the chip: machine, memory map, compiler target.

    ``icount_shift``: one instruction takes ``2 ** icount_shift`` ns of virtual time.
    ``variant`` names the folder below the platform's ``variants/``.
    """

    machine: str
    icount_shift: int
    variant: str
    cpu_flags: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Board:
    """Everything the bench knows about one kind of board.

    ``emulation`` is the chip of an emulated board, or that of a hardware board's stand-in.
    ``reset_methods`` are tried in order.
    """

    name: str
    title: str
    lane: Lane
    fqbn: str
    core: str
    tier: Tier
    usb: UsbIdentity
    serial: SerialFacts
    upload_method: str
    emulation: Emulation | None
    linux_side: LinuxSide | None
    reset_methods: tuple[ResetMethod, ...]
    core_versions: tuple[CoreVersion, ...]
    notes: tuple[str, ...]
    path: Path

    @property
    def platform(self) -> str:
        """Vendor and architecture of its Arduino platform, e.g. ``arduino:zephyr``."""
        return ":".join(self.fqbn.split(":")[:2])

    @property
    def default_core_version(self) -> CoreVersion:
        """The newest core version, which is the last in the file."""
        return self.core_versions[-1]

    def core_version(self, version: str | None) -> CoreVersion:
        """The core version named, or the default; raises :class:`UsageError` on an unknown one."""
        if version is None:
            return self.default_core_version
        for known in self.core_versions:
            if known.version == version:
                return known
        names = ", ".join(repr(known.version) for known in self.core_versions)
        raise UsageError(
            f"board {self.name!r} has no core version {version!r}",
            remedy=f"choose one of {names}, or add it to {self.path}",
        )


def load_boards(folder: Path | None = None) -> tuple[Board, ...]:
    """Every board of ``folder`` (the bench's own by default), sorted by lane and name.

    Raises :class:`UsageError` on the first file that is wrong.
    """
    where = folder or boards_dir()
    boards = [load_board(path) for path in sorted(where.glob("*.toml"))]
    lanes = list(Lane)
    return tuple(sorted(boards, key=lambda board: (lanes.index(board.lane), board.name)))


def find_board(name: str, folder: Path | None = None) -> Board:
    """The board called ``name``; raises :class:`UsageError` that lists the known ones.

    A name that ends in ``.toml`` is the path of a board file of the caller's own.
    """
    if name.endswith(".toml"):
        return load_board(Path(name))
    where = folder or boards_dir()
    path = where / f"{name}.toml"
    names = sorted(each.stem for each in where.glob("*.toml"))
    if name in names:
        return load_board(path)
    from harness.boards.schema import did_you_mean

    raise UsageError(
        f"there is no board {name!r}{did_you_mean(name, names)}",
        remedy=f"choose one of {', '.join(names)}, or add {path.name} to {where}",
    )


def load_board(path: Path) -> Board:
    """Read and validate one board file; raises :class:`UsageError` with file, line and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the board file {str(path)!r}: {error}",
            remedy="check that the file exists, is readable and is UTF-8",
        ) from error
    try:
        raw: Mapping[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{path}: this is not TOML: {error}", remedy="correct the syntax at that place"
        ) from error
    return _board(Table(raw, path=path, text=text), path)


def _board(top: Table, path: Path) -> Board:
    name = top.text("name")
    if name != path.stem:
        top.fail("name", f"is {name!r}, but the file is {path.name!r}", "make the two equal")
    usb = top.table("usb")
    serial = top.table("serial")
    lane = top.enum("lane", Lane)
    emulation = top.optional_table("emulation")
    if emulation is None and lane is Lane.EMULATED:
        top.fail("lane", f"is {lane.value!r}", "give [emulation], or another lane")
    if emulation is not None and lane is Lane.HOST:
        top.fail("lane", f"is {lane.value!r}", "remove [emulation]: nothing is emulated there")
    linux_side = top.optional_table("linux_side")
    versions = tuple(_core_version(each) for each in top.tables("core_version"))
    board = Board(
        name=name,
        title=top.text("title"),
        lane=lane,
        fqbn=top.text("fqbn", pattern=r"[\w.-]+:[\w.-]+:[\w.-]+(:[\w.=,-]+)?"),
        core=top.text("core"),
        tier=top.enum("tier", Tier),
        usb=UsbIdentity(
            vid=usb.text("vid", pattern=r"0x[0-9a-f]{4}"),
            pid=usb.text("pid", pattern=r"0x[0-9a-f]{4}"),
        ),
        serial=SerialFacts(
            baud=serial.whole("baud"),
            opens_before_upload=serial.flag("opens_before_upload"),
            resets_on_open=serial.flag("resets_on_open"),
            banner_repeats=serial.flag("banner_repeats"),
        ),
        upload_method=top.text("upload_method"),
        emulation=None if emulation is None else _emulation(emulation),
        linux_side=None if linux_side is None else _linux_side(linux_side),
        reset_methods=top.enums("reset_methods", ResetMethod),
        core_versions=versions,
        notes=top.texts("notes", optional=True),
        path=path,
    )
    top.close()
    return board


def _linux_side(table: Table) -> LinuxSide:
    return LinuxSide(
        openocd=table.text("openocd"),
        script_dirs=table.texts("script_dirs"),
        config=table.text("config"),
        sketch_address=table.whole("sketch_address"),
        router_service=table.text("router_service"),
        source=table.text("source"),
    )


def _emulation(table: Table) -> Emulation:
    return Emulation(
        machine=table.text("machine"),
        icount_shift=table.whole("icount_shift", most=10),
        variant=table.text("variant"),
        cpu_flags=table.texts("cpu_flags"),
        source=table.text("source"),
    )


def _core_version(table: Table) -> CoreVersion:
    return CoreVersion(
        version=table.text("version"),
        flash_bytes=table.whole("flash_bytes", least=1),
        ram_bytes=table.whole("ram_bytes", least=1),
        stack_bytes=table.whole("stack_bytes"),
        heap_bytes=table.whole("heap_bytes"),
        size_recipe=table.optional_text("size_recipe") or "size -A",
        serial_is=table.optional_text("serial_is") or "the board's UART",
        source=table.text("source"),
        libraries=tuple(
            RequiredLibrary(
                name=each.text("name"),
                least_version=each.text("least_version", pattern=r"\d+(\.\d+)*"),
                source=each.text("source"),
            )
            for each in table.tables("library", optional=True)
        ),
        budgets=tuple(
            Budget(
                sketch=each.text("sketch"),
                flash_bytes=each.whole("flash_bytes", least=1),
                ram_bytes=each.whole("ram_bytes", least=1),
                measured_flash_bytes=each.whole("measured_flash_bytes", least=1),
                measured_ram_bytes=each.whole("measured_ram_bytes", least=1),
                source=each.text("source"),
            )
            for each in table.tables("budget", optional=True)
        ),
        arenas=tuple(
            ArenaBand(
                sketch=each.text("sketch"),
                fails_bytes=each.wholes("fails_bytes", optional=True),
                works_bytes=each.wholes("works_bytes", optional=True),
                shipped_bytes=each.whole("shipped_bytes", least=1),
                untested_bytes=each.wholes("untested_bytes", optional=True),
                standing=each.optional_enum("standing", Standing) or Standing.MEASURED,
                source=each.text("source"),
            )
            for each in table.tables("arena", optional=True)
        ),
    )
