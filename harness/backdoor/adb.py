"""The ``adb`` command line: pure argument lists, and one board that is spoken with through it.

``adb shell`` joins its words with blanks, and the shell on the board splits them again.  A word
with blanks has to carry quotes of its own; arduino/remoteocd does it in the same way
(board/adb.go, escapeArgs).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import process
from harness.backdoor import adb_errors
from harness.clock import Deadline
from harness.errors import ToolError, UsageError
from harness.process import Completed

LIST_TIMEOUT_S = 15.0
"""The first call starts adb's server, which takes some seconds."""

SHELL_TIMEOUT_S = 15.0

MOST_BYTES = 1 << 20
"""Nothing the bench asks for is near this; a command that prints more is ended."""

STATES = frozenset(
    {
        "device",
        "offline",
        "unauthorized",
        "authorizing",
        "connecting",
        "no permissions",
        "bootloader",
        "recovery",
        "rescue",
        "sideload",
        "host",
        "detached",
        "unknown",
    }
)
"""What ``adb devices`` prints after a serial number (adb/client/transport.cpp)."""

NOT_READY = frozenset({"offline", "authorizing", "connecting", "detached", "unknown"})

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_SERIAL_NUMBER = re.compile(r"[A-Za-z0-9._:][A-Za-z0-9._:-]*")


@dataclass(frozen=True)
class Listed:
    """One line of ``adb devices``: a board and its state, with what adb adds to that."""

    serial_number: str
    state: str
    detail: str = ""


def devices_argv(program: Path) -> tuple[str, ...]:
    """``adb devices``."""
    return (str(program), "devices")


def shell_argv(program: Path, serial_number: str, words: Sequence[str]) -> tuple[str, ...]:
    """``adb -s SN shell WORD...``, each word quoted so that it arrives as one."""
    return (str(program), "-s", serial_number, "shell", *map(remote_word, words))


def remote_word(word: str) -> str:
    """``word`` as the shell on the board has to see it to take it as one word."""
    if _PLAIN.fullmatch(word):
        return word
    return '"' + re.sub(r'([\\"$`])', r"\\\1", word) + '"'


def parse_devices(text: str) -> tuple[Listed, ...]:
    """The boards in the output of ``adb devices``.

    Lines of adb's own (``* daemon started successfully``) are passed over.  Raises
    :class:`AdbGarbage` when there is no list in it or a line of it is not one.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    # Word for word in every version of adb.
    heads = [number for number, line in enumerate(lines) if line == "List of devices attached"]
    if not heads:
        raise adb_errors.garbage("devices", text)
    found = []
    for line in lines[heads[0] + 1 :]:
        if not line or line.startswith("*"):
            continue
        serial_number, _, rest = line.replace("\t", " ", 1).partition(" ")
        rest = rest.strip()
        state = next((each for each in STATES if re.match(rf"{each}\b", rest)), None)
        if state is None:
            raise adb_errors.garbage("devices", text)
        found.append(Listed(serial_number, state, rest.removeprefix(state).strip()))
    return tuple(found)


def choose(listed: Sequence[Listed], serial_number: str | None) -> Listed:
    """The board to speak with, ready; the only one where no serial number is given.

    Raises the :class:`harness.backdoor.adb_errors.AdbError` that its state stands for.
    """
    if not listed:
        raise adb_errors.no_device(serial_number)
    there = [each.serial_number for each in listed]
    fitting = [each for each in listed if serial_number in (None, each.serial_number)]
    hidden = [each for each in listed if each.serial_number.startswith("?")]
    if not fitting and hidden:
        # adb cannot read the number of a device that it may not open.
        fitting = hidden[:1]
    if not fitting:
        raise adb_errors.not_found(str(serial_number), there)
    if len(fitting) > 1:
        raise (
            adb_errors.several(there) if serial_number is None else adb_errors.twins(serial_number)
        )
    chosen = fitting[0]
    name = serial_number or chosen.serial_number
    if chosen.state == "unauthorized":
        raise adb_errors.unauthorized(name)
    if chosen.state == "no permissions":
        raise adb_errors.no_permission(name, f"{chosen.state} {chosen.detail}")
    if chosen.state != "device":
        raise adb_errors.offline(name, chosen.state)
    return chosen


def list_boards(program: Path) -> tuple[Listed, ...]:
    """Every board that adb sees.  Raises as :meth:`AdbDevice.shell`."""
    done = _run(devices_argv(program), "devices", LIST_TIMEOUT_S)
    if not done.ok:
        said = done.stdout + done.stderr
        error = adb_errors.complaint(said, "?", "devices", done.returncode)
        raise error or adb_errors.failed("devices", done.returncode, said)
    return parse_devices(done.stdout)


@dataclass(frozen=True)
class AdbDevice:
    """One board, by its serial number, behind the program ``adb``."""

    program: Path
    serial_number: str

    def check(self) -> None:
        """Raise what stands between this computer and the board; else return."""
        self._require_number()
        choose(list_boards(self.program), self.serial_number)

    def shell(self, words: Sequence[str], *, timeout_s: float | None = None) -> Completed:
        """Run a command on the board's Linux side and return what it left.

        It may take ``timeout_s``, :data:`SHELL_TIMEOUT_S` by default.

        The exit code is the command's own, where the board's adbd passes it on; an old one always
        gives 0.  Raises :class:`AdbMissing` without a program, and the kind of :class:`AdbError`
        that adb's own complaint, its silence or its flood stands for.
        """
        self._require_number()
        argv = shell_argv(self.program, self.serial_number, words)
        doing = f"shell {words[0]}" if words else "shell"
        done = _run(argv, doing, SHELL_TIMEOUT_S if timeout_s is None else timeout_s)
        if not done.ok:
            said = done.stdout + "\n" + done.stderr
            error = adb_errors.complaint(said, self.serial_number, doing, done.returncode)
            if isinstance(error, adb_errors.AdbNotFound):
                # The list says more: which boards there are, or that this one's state has changed.
                self.check()
            if error is not None:
                raise error
        return done

    def _require_number(self) -> None:
        if not _SERIAL_NUMBER.fullmatch(self.serial_number):
            raise UsageError(
                f"serial number {self.serial_number!r} is not one that adb takes",
                remedy="give the number that 'adb devices' or 'arduino-cli board list' shows",
            )


def _run(argv: Sequence[str], doing: str, timeout_s: float) -> Completed:
    program = Path(argv[0])
    if not os.access(program, os.X_OK) or program.is_dir():
        raise adb_errors.missing(program)
    held = 0

    def count(piece: bytes) -> None:
        nonlocal held
        held += len(piece)
        if held > MOST_BYTES:
            raise adb_errors.too_much(doing, MOST_BYTES)

    deadline = Deadline.after(timeout_s)
    try:
        return process.run(argv, timeout_s=timeout_s, on_output=count)
    except ToolError as error:
        if deadline.expired:
            evidence = adb_errors.shown_lines("\n".join(error.evidence))
            raise adb_errors.wedged(doing, timeout_s, evidence) from error
        raise adb_errors.AdbError(
            f"the program {str(program)!r} does not run: {error.message}",
            remedy="check that it is adb for this computer: run it with 'version'",
            evidence=error.evidence,
        ) from error
