"""The OpenOCD on a stand-in's Linux side: the commands that uploads and the bench give it.

Text, order and exit codes as OpenOCD 0.11 and later: everything goes to standard error, a ``-c``
line or ``-f`` file prints the result of its last command only, the first error ends the run with
code 1, and a run that is never told to shut down serves for ever.  It reaches the emulated chip
through its owner and through QEMU's QMP socket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

from harness.boards.board import LinuxSide
from harness.emulator import qmp
from harness.emulator.behaviour import Behaviour, Turns
from harness.emulator.flash_model import Flash
from harness.emulator.image import ERASED, FLASH_BASE, MEMORY_BYTES, RAM_BASE, payload_of
from harness.emulator.registers import core_registers, register_lines
from harness.emulator.tcl import Command, Tcl, TclError
from harness.errors import HilError

TARGET = "stm32u5x.cpu"
"""What OpenOCD calls the core.  Inferred from its stm32u5x target file."""

BANNER = (
    "Open On-Chip Debugger 0.12.0",
    "Licensed under GNU GPL v2",
    "For bug reports, read",
    "\thttp://openocd.org/doc/doxygen/bugs.html",
)
MOST_ITEMS = 65536
BANK = 0x08000000
"""Where the real chip's flash begins (STM32U585 reference manual)."""

FORMS: Mapping[str, tuple[int, int, str]] = {
    "mdb": (1, 32, "B"),
    "mdh": (2, 16, "H"),
    "mdw": (4, 8, "I"),
}
"""Bytes of an item, items a line, and their struct code."""

SETTINGS = ("adapter", "transport", "targets", "poll", "sleep", "gdb_port", "tcl_port",
            "telnet_port", "source", "gdb_memory_map", "gdb_flash_program")  # fmt: skip
"""Commands that change nothing the stand-in shows."""


class Chip(Protocol):
    """What the debugger can do to the chip, besides looking into it."""

    def start(self, payload: bytes | None) -> None:
        """Boot this firmware; None: the loader finds nothing that it would start."""

    def restart(self) -> None:
        """Boot what it has."""

    def hold(self) -> None:
        """Keep it in reset."""

    def look(self) -> Path | None:
        """The QMP socket of the running chip, kept awake; None while nothing runs."""


@dataclass(frozen=True)
class Run:
    """How a run of OpenOCD ended."""

    exit_code: int
    stderr: str


class _ShutDown(Exception):
    """``shutdown`` or ``exit`` was reached."""


class OpenOcd:
    """One run on the chip; ``read`` gives the bytes of a file of the Linux side, or None."""

    def __init__(
        self,
        linux_side: LinuxSide,
        chip: Chip,
        flash: Flash,
        read: Callable[[str], bytes | None],
        behaviour: Behaviour,
        turns: Turns,
    ) -> None:
        self._linux_side = linux_side
        self._chip = chip
        self._flash = flash
        self._read = read
        self._behaviour = behaviour
        self._turns = turns
        self._said: list[str] = []
        self._ready = False
        self._halted = False
        self._exit_code = 0
        self._open = ExitStack()
        self._monitor: qmp.Monitor | None = None
        commands: dict[str, Command] = {
            "init": self._init,
            "reset": self._reset,
            "halt": self._halt,
            "resume": self._resume,
            "reg": self._reg,
            "flash": self._flash_command,
            "program": self._program,
            "verify_image": self._verify,
            "shutdown": self._shut_down,
            "exit": self._shut_down,
        }
        commands |= {name: self._dump(name) for name in FORMS}
        commands |= dict.fromkeys(SETTINGS, lambda _: "")
        self._tcl = Tcl(commands, self._say)

    def run(self, arguments: Sequence[str]) -> Run | None:
        """Run with this command line; None when it would never end."""
        self._said += BANNER
        with self._open:
            try:
                for script in self._scripts(arguments):
                    if result := self._tcl.run(script):
                        self._say(result.rstrip("\n"))
                self._init(())
            except _ShutDown:
                return Run(self._exit_code, self._text())
            except TclError as error:
                if str(error):
                    self._say(f"Error: {error}")
                return Run(1, self._text())
            except (OSError, ValueError) as error:
                self._say(f"Error: [{TARGET}] {error}")
                return Run(1, self._text())
        return None

    def _text(self) -> str:
        return "".join(f"{line}\n" for line in self._said)

    def _say(self, line: str) -> None:
        self._said.append(line)

    def _fail(self, *lines: str) -> NoReturn:
        self._said += [f"Error: {line}" for line in lines]
        raise TclError

    def _scripts(self, arguments: Sequence[str]) -> list[str]:
        """The scripts of ``-c`` and ``-f``, in order."""
        found: list[str] = []
        at = 0
        while at < len(arguments):
            option = arguments[at]
            joined = option[2:]
            if option[:2] in ("-c", "-f", "-s") and not joined:
                at += 1
                if at == len(arguments):
                    raise TclError(f"openocd: option requires an argument -- '{option[1]}'")
                joined = arguments[at]
            elif option[:2] not in ("-c", "-f", "-s", "-d"):
                raise TclError(f"Unexpected command line argument: {option}")
            if option.startswith("-c"):
                found.append(joined)
            elif option.startswith("-f"):
                found.append(self._file(joined))
            at += 1
        return found

    def _file(self, name: str) -> str:
        if name == self._linux_side.config:
            return ""
        content = self._read(name)
        if content is None:
            raise TclError(f"Can't find {name}\nin procedure 'script'")
        return content.decode("utf-8", "replace")

    def _init(self, words: Sequence[str]) -> str:
        del words
        if not self._ready:
            self._ready = True
            self._say("Info : Linux GPIOD JTAG/SWD bitbang driver")
            self._say(f"Info : [{TARGET}] Cortex-M33 r0p4 processor detected")
        return ""

    def _needs_init(self, name: str) -> None:
        if not self._ready:
            self._fail(f"The '{name}' command must be used after 'init'.")

    def _shut_down(self, words: Sequence[str]) -> str:
        del words
        self._say("shutdown command invoked")
        raise _ShutDown

    def _reset(self, words: Sequence[str]) -> str:
        self._needs_init("reset")
        self._let_go()
        mode = words[0] if words else "run"
        if mode in ("halt", "init"):
            self._chip.hold()
            self._halted = True
            self._say(f"[{TARGET}] halted due to debug-request, current mode: Thread ")
        elif mode == "run":
            self._halted = False
            self._boot()
        else:
            self._fail(f"invalid reset mode '{mode}'")
        return ""

    def _boot(self) -> None:
        if self._flash.sketch is None:
            self._chip.restart()
            return
        if self._flash.written and self._turns.take(self._behaviour.header_rejected):
            self._flash.rejected = True
        changed, self._flash.written = self._flash.written, False
        if self._flash.problem is not None:
            self._chip.start(None)
        elif changed:
            self._chip.start(payload_of(self._flash.sketch))
        else:
            self._chip.restart()

    def _connected(self) -> qmp.Monitor | None:
        if self._monitor is None and (path := self._chip.look()) is not None:
            self._monitor = self._try(qmp.connect(path))
        return self._monitor

    def _try(self, opening: AbstractContextManager[qmp.Monitor]) -> qmp.Monitor:
        try:
            return self._open.enter_context(opening)
        except (OSError, ValueError) as error:
            self._fail(f"[{TARGET}] Examination failed: {error}")

    def _let_go(self) -> None:
        self._open.close()
        self._monitor = None

    def _halt(self, words: Sequence[str]) -> str:
        del words
        self._needs_init("halt")
        self._halted = True
        if (monitor := self._connected()) is not None:
            monitor.ask("stop")
            found = core_registers(monitor)
            mode = "Handler" if found["xpsr"] & 0x1FF else "Thread"
            self._say(f"[{TARGET}] halted due to debug-request, current mode: {mode} ")
            where = f"xPSR: {found['xpsr']:#010x} pc: {found['pc']:#010x}"
            self._say(f"{where} msp: {found['msp']:#010x}")
        return ""

    def _resume(self, words: Sequence[str]) -> str:
        del words
        self._needs_init("resume")
        self._halted = False
        if (monitor := self._connected()) is not None:
            monitor.ask("cont")
        return ""

    def _reg(self, words: Sequence[str]) -> str:
        self._needs_init("reg")
        monitor = self._connected() if self._halted else None
        values = core_registers(monitor) if monitor is not None else {}
        return register_lines(values, words[0] if words else None)

    def _dump(self, name: str) -> Command:
        size, a_line, code = FORMS[name]

        def dump(words: Sequence[str]) -> str:
            self._needs_init(name)
            try:
                address, count = int(words[0], 0), int(words[1], 0) if len(words) > 1 else 1
            except (ValueError, IndexError):
                self._fail(f"{name} ['phys'] address [count]")
            if not 0 < count <= MOST_ITEMS:
                self._fail(f"{name}: count {count} out of range")
            values = struct.unpack(f"<{count}{code}", self._memory(address, size * count))
            lines = []
            for at in range(0, count, a_line):
                text = " ".join(f"{value:0{2 * size}x}" for value in values[at : at + a_line])
                lines.append(f"0x{address + size * at:08x}: {text} ")
            return "\n".join(lines)

        return dump

    def _memory(self, address: int, nbytes: int) -> bytes:
        sketch = self._flash.sketch
        in_flash = FLASH_BASE <= address <= address + nbytes <= FLASH_BASE + MEMORY_BYTES
        # The flash says the same whether the core runs, is held or has crashed.
        monitor = None if in_flash and sketch is not None else self._connected()
        if in_flash and monitor is None:
            start = address - FLASH_BASE
            there = payload_of(sketch or b"")[start : start + nbytes]
            return there + ERASED * (nbytes - len(there))
        if monitor is None and RAM_BASE <= address <= address + nbytes <= RAM_BASE + MEMORY_BYTES:
            return bytes(nbytes)
        try:
            if monitor is not None:
                return monitor.read(address, nbytes)
        except (HilError, OSError, ValueError):
            pass
        self._fail(f"[{TARGET}] Failed to read memory at 0x{address:08x}")

    def _flash_command(self, words: Sequence[str]) -> str:
        self._needs_init("flash")
        match words:
            case ["write_image", *rest]:
                rest = [word for word in rest if word not in ("erase", "unlock")]
                return self._write(rest)
            case ["verify_image", *rest]:
                return self._verify(rest)
            case ["verify_bank", _, name, *offset]:
                at = BANK + int(offset[0], 0) if offset else BANK
                return self._verify([name, hex(at)])
            case ["banks" | "probe" | "info" | "list" | "protect" | "erase_sector", *_]:
                return ""
        raise TclError(f'invalid subcommand "{" ".join(words)}"')

    def _program(self, words: Sequence[str]) -> str:
        self._init(())
        options = {word for word in words if word in ("verify", "reset", "exit")}
        rest = [word for word in words if word not in options]
        self._reset(["halt"])
        self._say("** Programming Started **")
        self._write(rest)
        self._say("** Programming Finished **")
        if "verify" in options:
            self._verify(rest)
            self._say("** Verified OK **")
        if "reset" in options:
            self._reset(["run"])
        return self._shut_down(()) if "exit" in options else ""

    def _content(self, words: Sequence[str]) -> tuple[str, bytes, bool]:
        """Name and bytes of the file, and whether it is the sketch."""
        if not words:
            self._fail("flash write_image: no file was named")
        content = self._read(words[0])
        if content is None:
            self._fail(f"couldn't open {words[0]}")
        try:
            address = int(words[1], 0) if len(words) > 1 else None
        except ValueError:
            self._fail(f"invalid address '{words[1]}'")
        return words[0], content, address == self._linux_side.sketch_address

    def _write(self, words: Sequence[str]) -> str:
        name, content, is_sketch = self._content(words)
        if not self._halted:
            self._fail("Target not halted", "failed erasing sectors")
        if is_sketch and self._turns.take(self._behaviour.upload_fails):
            self._fail("timed out while waiting for target halted", "flash write algorithm failed")
        self._flash.uploads += is_sketch
        cut_off = self._behaviour.upload_cut_off
        if is_sketch and cut_off is not None and self._turns.take(cut_off):
            self._flash.write(content[: len(content) * cut_off.percent // 100])
            self._fail("timed out while waiting for target halted", "flash write algorithm failed")
        if not is_sketch:
            self._flash.loader = content
        elif not self._turns.take(self._behaviour.upload_lies):
            self._flash.write(content)
        verify = self._behaviour.upload_verify_failed
        if is_sketch and verify is not None and self._turns.take(verify):
            self._say(_verify_failed(self._linux_side.sketch_address - BANK))
            self._exit_code = verify.exit_code
        self._say(f"wrote {len(content)} bytes from file {name} in 0.1s")
        return ""

    def _verify(self, words: Sequence[str]) -> str:
        name, content, is_sketch = self._content(words)
        there = self._flash.sketch if is_sketch else self._flash.loader
        # A tool that lies once lies when it compares, too.
        if there != content and not (is_sketch and self._behaviour.upload_lies is not None):
            self._say(_verify_failed(self._linux_side.sketch_address - BANK if is_sketch else 0))
            raise TclError
        self._say(f"verified {len(content)} bytes from file {name} in 0.1s")
        return ""


def _verify_failed(offset: int) -> str:
    """What ArduinoCore-zephyr issue 542 shows; the numbers are inferred from OpenOCD's format."""
    return f"Error: verify failed in bank at 0x{BANK:08x} starting at 0x{offset:08x}"
