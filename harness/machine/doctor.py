"""What each lane needs of this machine, found or missing, and what to do about it.

A check is required by the lanes it names, or only makes them better; a lane can run when
everything that it requires was found.  Nothing is installed or changed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.boards.board import Board, Lane, load_boards
from harness.errors import HilError
from harness.machine import probes as machine
from harness.machine.config import Config, load_config
from harness.machine.requirement import CCACHE, CROSS_CXX, CTAGS, GIT, HOST_CXX, QEMU, Requirement
from harness.machine.tool import Tool, arduino_cli, find, find_picolibc, find_picolibc_libstdcxx

HOST = (Lane.HOST,)
EMULATED = (Lane.EMULATED,)
HARDWARE = (Lane.HARDWARE,)
VIRTUAL = (*HOST, *EMULATED)
CROSS = (*EMULATED, *HARDWARE)
ALL = (*HOST, *EMULATED, *HARDWARE)


@dataclass(frozen=True)
class Need:
    """One thing to look for: ``look`` returns what it found, or raises :class:`HilError`.

    ``required`` says whether ``lanes`` cannot run without it.
    """

    name: str
    lanes: tuple[Lane, ...]
    look: Callable[[], str]
    required: bool = True


@dataclass(frozen=True)
class Check:
    """What became of a :class:`Need`: ``found``, or else ``problem`` and its ``remedy``."""

    name: str
    lanes: tuple[Lane, ...]
    required: bool
    found: str | None = None
    problem: str | None = None
    remedy: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it was found and will do."""
        return self.problem is None


@dataclass(frozen=True)
class Examination:
    """Every check that was made, in the order in which a person would mend them."""

    checks: tuple[Check, ...]

    def blocking(self, lane: Lane) -> tuple[Check, ...]:
        """What keeps ``lane`` from running here; empty when it can run."""
        return tuple(
            check
            for check in self.checks
            if lane in check.lanes and check.required and not check.ok
        )

    def can_run(self, lane: Lane) -> bool:
        """Whether everything that ``lane`` requires is here."""
        return not self.blocking(lane)


def examine(lanes: tuple[Lane, ...] = ALL, *, config: Config | None = None) -> Examination:
    """Look for everything that ``lanes`` need.

    Raises :class:`UsageError` where the configuration or a board file is wrong.
    """
    needs = needed(load_boards(), load_config() if config is None else config)
    return Examination(
        tuple(checked(need) for need in needs if any(lane in need.lanes for lane in lanes))
    )


def why_not(lane: Lane) -> str | None:
    """One line that says why ``lane`` cannot run here and what to do; None when it can."""
    blocking = examine((lane,)).blocking(lane)
    if not blocking:
        return None
    more = f" (and {len(blocking) - 1} more: see 'hil doctor')" if len(blocking) > 1 else ""
    return f"{blocking[0].problem}; {blocking[0].remedy}{more}"


def checked(need: Need) -> Check:
    """Look for one thing."""
    try:
        found = need.look()
    except HilError as error:
        return Check(
            need.name,
            need.lanes,
            need.required,
            problem="; ".join((error.message, *error.evidence[:3])),
            remedy=error.remedy,
        )
    return Check(need.name, need.lanes, need.required, found=found)


def needed(boards: tuple[Board, ...], config: Config) -> tuple[Need, ...]:
    """Everything that any lane needs, for these boards and this configuration."""
    machines = {
        board.emulation.machine: board.name for board in boards if board.emulation is not None
    }
    cores = sorted({board.platform for board in boards if board.lane in HARDWARE})
    return (
        *(
            Need(f"Python package {name}", ALL, partial(machine.python_package, name))
            for name in machine.PYTHON_PACKAGES
        ),
        Need("arduino-cli", ALL, lambda: _text(arduino_cli())),
        _program(CTAGS, ALL),
        _program(GIT, ALL, required=False),
        Need("Arduino platform of the bench", VIRTUAL, machine.arduino_platform),
        Need("cache folder", ALL, machine.cache_folder),
        Need("free disk space", ALL, machine.free_disk, required=False),
        Need("folder of plugged-in boards", VIRTUAL, machine.run_folder),
        Need("pseudo-terminals", VIRTUAL, machine.pseudo_terminals),
        _program(HOST_CXX, HOST),
        Need("runtime in the executorch wheel", HOST, machine.wheel_runtime),
        _program(CROSS_CXX, EMULATED),
        Need("picolibc", EMULATED, lambda: str(find_picolibc(find(CROSS_CXX)))),
        Need("libstdc++ for picolibc", EMULATED, _libstdcxx),
        _program(QEMU, EMULATED),
        Need("QEMU machines", EMULATED, partial(machine.emulated_machines, machines)),
        _program(CCACHE, EMULATED, required=False),
        # A named one has to be in order; without one, the bench's own sketches still run.
        Need(
            "ExecuTorch checkout"
            if config.executorch is not None
            else "ExecuTorch checkout (adds the real library)",
            CROSS if config.executorch is not None else ALL,
            partial(machine.checkout, config),
            required=config.executorch is not None,
        ),
        *(
            Need(f"Arduino core {core}", HARDWARE, partial(machine.board_core, core))
            for core in cores
        ),
        Need("serial ports", HARDWARE, machine.serial_ports),
    )


def _program(requirement: Requirement, lanes: tuple[Lane, ...], *, required: bool = True) -> Need:
    return Need(requirement.program, lanes, lambda: _text(find(requirement)), required)


def _libstdcxx() -> str:
    return str(find_picolibc_libstdcxx(find(CROSS_CXX)))


def _text(tool: Tool) -> str:
    return f"{tool.version} at {tool.path}"
