"""A board's back door: its chip read, reset and examined without touching its USB port.

adb reaches the board's Linux side, whose OpenOCD reaches the microcontroller.  Nothing here knows
whether a real board or a stand-in answers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.autopsy.chip import (
    FAULT_REGISTERS,
    FAULT_WORDS,
    STACK_WORDS,
    Autopsy,
    decode,
    stack_pointers,
)
from harness.autopsy.story import story
from harness.autopsy.symbols import Symbols, load_symbols
from harness.backdoor import openocd
from harness.backdoor.adb import AdbDevice
from harness.backdoor.adb_errors import AdbWedged, shown_lines
from harness.boards.board import LinuxSide
from harness.errors import DeviceError, HilError, UsageError

MOST_BYTES = 65536
"""Most bytes read at once: some seconds over the board's own debugger."""

ROUTER_LINES = 3


@dataclass(frozen=True)
class LinuxState:
    """The board's Linux side: seconds since it booted, systemd's word for it, and the router.

    ``system`` is what ``systemctl is-system-running`` prints (``starting`` while it boots),
    ``router_text`` what ``is-active`` prints of the router's unit.
    """

    uptime_s: float
    system: str
    router_active: bool
    router_text: str

    @property
    def booting(self) -> bool:
        """Whether services may still be about to start."""
        return self.system in ("initializing", "starting")


@dataclass(frozen=True)
class BackDoor:
    """One board's debugger and Linux side, through adb."""

    device: AdbDevice
    linux_side: LinuxSide

    def check(self) -> None:
        """Raise what stands between this computer and the board; else return.

        :class:`harness.backdoor.adb_errors.AdbMissing` without adb, a kind of
        :class:`~harness.backdoor.adb_errors.AdbError` for every other state.
        """
        self.device.check()

    def read_memory(self, address: int, nbytes: int) -> bytes:
        """``nbytes`` of the chip's memory, while it goes on.

        Raises :class:`UsageError` for an impossible range, :class:`OpenOcdFailed
        <harness.backdoor.openocd.OpenOcdFailed>` when OpenOCD cannot, and as :meth:`check`.
        """
        _check_range(address, nbytes)
        words = openocd.read_words(self.linux_side, address, nbytes)
        text = self._openocd(words, f"reading {nbytes} bytes at {address:#010x}")
        return openocd.parse_memory(text, address, nbytes)

    def reset(self) -> None:
        """Start the chip anew.  Raises as :meth:`read_memory`.

        That OpenOCD did as asked does not prove that the firmware came up.
        """
        self._openocd(openocd.reset_words(self.linux_side), "a reset")

    def read_and_reset(self, address: int, nbytes: int) -> bytes:
        """:meth:`read_memory`, then :meth:`reset`, in one call."""
        _check_range(address, nbytes)
        words = openocd.read_and_reset_words(self.linux_side, address, nbytes)
        text = self._openocd(words, f"reading {nbytes} bytes at {address:#010x} and a reset")
        return openocd.parse_memory(text, address, nbytes)

    def examine(self) -> Autopsy:
        """Where the core stands.  It is stopped for some tenths of a second, twice.

        Raises as :meth:`read_memory`.
        """
        registers, faults, _ = self._look(())
        wanted = stack_pointers(registers)
        # Twice, since the stack's address is only known from the first look.
        with suppress(openocd.OpenOcdFailed):
            again, faults_again, stacks = self._look(wanted)
            if stack_pointers(again) == wanted:
                return decode(again, faults_again, stacks)
        return decode(registers, faults, {})

    def linux_state(self) -> LinuxState:
        """How the Linux side is.  Raises :class:`DeviceError` for an answer that is none, and as
        :meth:`check`.
        """
        uptime = self.device.shell(("cat", "/proc/uptime"))
        try:
            uptime_s = float(uptime.stdout.split()[0])
        except (ValueError, IndexError) as error:
            raise DeviceError(
                f"the Linux side of board {self.device.serial_number!r} does not tell its uptime",
                remedy="see what 'adb shell cat /proc/uptime' prints",
                evidence=shown_lines(openocd.output(uptime)),
            ) from error
        system = self._word(("systemctl", "is-system-running"))
        router = self.router()
        return LinuxState(uptime_s, system, router == "active", router)

    def router(self) -> str:
        """systemd's word for the router between chip and USB, ``active`` when it runs.

        Raises as :meth:`check`.
        """
        return self._word(("systemctl", "is-active", self.linux_side.router_service))

    def describe_silence(self, elf: Path | None) -> tuple[str, ...]:
        """Everything that can be asked of a board that says nothing, in printable lines.

        ``elf`` is what should run: it gives the expected nonce and names addresses.  A question
        that fails says so in one line and the others go on; only where adb itself does not reach
        the board, or does not come back, the rest is not asked.
        """
        try:
            self.check()
        except HilError as error:
            return (
                f"the board's Linux side cannot be asked: {error.message}",
                f"  what to do: {error.remedy}",
            )
        symbols = load_symbols(elf)
        questions: Sequence[tuple[str, Callable[[], Sequence[str]]]] = (
            ("Linux side", self._tell_linux),
            ("firmware", lambda: self._tell_firmware(symbols)),
            ("core", lambda: story(self.examine(), symbols)),
        )
        lines: list[str] = []
        for what, ask in questions:
            try:
                lines += ask()
            except HilError as error:
                lines.append(f"{what}: could not be asked: {error.message}")
                if isinstance(error, AdbWedged):
                    # Every other question would wait as long, for nothing.
                    lines += [f"  what to do: {error.remedy}", "nothing more was asked"]
                    break
        return tuple(lines)

    def _tell_linux(self) -> Sequence[str]:
        state = self.linux_state()
        lines = [f"Linux side: up for {state.uptime_s:.0f} s, {state.system or 'state unknown'}"]
        service = self.linux_side.router_service
        if state.router_active:
            return [*lines, f"router: {service} is active"]
        why = "; it has not finished booting" if state.booting else ""
        lines.append(
            f"router: {service} is {state.router_text or 'unknown'}: nothing passes between the"
            f" chip and USB{why}"
        )
        status = ("systemctl", "status", "--no-pager", f"--lines={ROUTER_LINES}", service)
        said = openocd.output(self.device.shell(status))
        return [*lines, *(f"router: {line.strip()}" for line in shown_lines(said)[-ROUTER_LINES:])]

    def _tell_firmware(self, symbols: Symbols) -> Sequence[str]:
        if symbols.nonce is None:
            why = symbols.problem or "its ELF has no nonce"
            return [f"firmware: which build runs cannot be told: {why}"]
        found = self.read_memory(symbols.nonce.address, len(symbols.nonce.text))
        if found == symbols.nonce.text:
            return [f"firmware: the chip holds the expected build, nonce {_shown(found)}"]
        both = f"nonce {_shown(found)}, expected {_shown(symbols.nonce.text)}"
        return [f"firmware: the chip holds another build ({both}): an upload did not arrive"]

    def _look(
        self, stacks: Sequence[int]
    ) -> tuple[dict[str, int], tuple[int, ...], dict[int, tuple[int, ...]]]:
        """Registers, fault words, and the words of each stack by its address."""
        words = openocd.look_words(self.linux_side, stacks)
        try:
            text = self._openocd(words, "examining the core")
        except openocd.OpenOcdFailed:
            # The first command that fails ends the run, with the chip still stopped.
            with suppress(HilError):
                self._openocd(openocd.resume_words(self.linux_side), "letting the chip go on")
            raise
        registers = openocd.parse_registers(text)
        faults = _words(text, FAULT_REGISTERS, FAULT_WORDS)
        return registers, faults, {each: _words(text, each, STACK_WORDS) for each in stacks}

    def _openocd(self, words: Sequence[str], doing: str) -> str:
        done = self.device.shell(words, timeout_s=openocd.TIMEOUT_S)
        return openocd.check(done, doing, self.linux_side)

    def _word(self, words: Sequence[str]) -> str:
        """The first line of what a command says; its exit code repeats it."""
        lines = shown_lines(openocd.output(self.device.shell(words)))
        return lines[0].strip() if lines else ""


def _check_range(address: int, nbytes: int) -> None:
    if not 0 <= address <= address + nbytes <= 1 << 32 or not 0 < nbytes <= MOST_BYTES:
        raise UsageError(
            f"{nbytes} bytes at {address:#x} cannot be read",
            remedy=f"ask for 1 to {MOST_BYTES} bytes within 32 bits of address",
        )


def _words(text: str, address: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}I", openocd.parse_memory(text, address, 4 * count, width=4))


def _shown(nonce: bytes) -> str:
    text = nonce.decode("ascii", "backslashreplace")
    return repr(text) if text.isprintable() else nonce.hex(" ")
