"""The Linux computer of a stand-in: what ``adb`` and the shell behind it answer.

A small Debian as the bench and ``remoteocd`` see it: a bounded file area, a handful of programs and
the board's own OpenOCD.  ``adb shell`` joins its words with blanks and the shell here splits them
again, as the real one does.
"""

from __future__ import annotations

import hashlib
import posixpath
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.boards.board import LinuxSide as LinuxSideData
from harness.clock import monotonic_s
from harness.emulator.behaviour import AdbState, Behaviour, Turns
from harness.emulator.flash_model import Flash
from harness.emulator.openocd_model import Chip, OpenOcd

MOST_BYTES = 64 << 20
"""The file area's size; a Uno Q has 16 GB, and nothing that the bench pushes is near this."""

MOST_OUTPUT_BYTES = 65536
UNAME = "Linux uno-q 6.16.7 #1 SMP PREEMPT aarch64 GNU/Linux"
"""Inferred: a kernel of the Uno Q's first images; nothing depends on it."""

ERRORS: Mapping[AdbState, str] = {
    AdbState.UNAUTHORIZED: "device unauthorized.\n"
    "This adb server's $ADB_VENDOR_KEYS is not set\n"
    "Try 'adb kill-server' if that seems wrong.\n"
    "Otherwise check for a confirmation dialog on your device.",
    AdbState.OFFLINE: "device offline",
    AdbState.NO_PERMISSIONS: "insufficient permissions for device: user in plugdev group;"
    " are your udev rules wrong?\n"
    "See [http://developer.android.com/tools/device.html] for more information",
    AdbState.TWICE: "more than one device",
    AdbState.ABSENT: "device not found",
}
"""What adb says of a device in each state (platform tools 34)."""


@dataclass(frozen=True)
class Answer:
    """How a command on the Linux side ended."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""

    def reply(self) -> dict[str, object]:
        """As the control socket sends it."""
        return {"ok": True, **asdict(self)}


class LinuxSide:
    """The Linux side of one plugged-in board, with its files below ``folder``."""

    def __init__(
        self,
        data: LinuxSideData,
        chip: Chip,
        flash: Flash,
        folder: Path,
        behaviour: Behaviour,
        turns: Turns,
    ) -> None:
        self.unplugged = False
        """The cable is out: adb does not see the board either."""
        self._data = data
        self._chip = chip
        self._flash = flash
        self._folder = folder
        self._behaviour = behaviour
        self._turns = turns
        self._plugged_at_s = monotonic_s()
        self._programs: Mapping[str, Callable[[Sequence[str]], Answer | None]] = {
            "mkdir": self._mkdir,
            "cat": self._cat,
            "sha256sum": self._sha256sum,
            "rm": self._rm,
            "ls": self._ls,
            "systemctl": self._systemctl,
            "uname": lambda words: Answer(stdout=UNAME + "\n" if words else "Linux\n"),
            "echo": lambda words: Answer(stdout=" ".join(words) + "\n"),
            "true": lambda _: Answer(),
            "false": lambda _: Answer(1),
            data.openocd: self._openocd,
            posixpath.basename(data.openocd): lambda _: _not_found("openocd"),
        }

    @property
    def router_up_at_s(self) -> float:
        """The monotonic second from which the router runs."""
        boots = self._behaviour.linux_side_boots
        return self._plugged_at_s + (boots.router_ms / 1000 if boots else 0.0)

    def state(self) -> AdbState | None:
        """What adb makes of the board now; None is a device like any other."""
        if self.unplugged:
            return AdbState.ABSENT
        age_ms = (monotonic_s() - self._plugged_at_s) * 1000
        boots, adb = self._behaviour.linux_side_boots, self._behaviour.adb
        if boots is not None and age_ms < boots.adb_ms:
            return AdbState.OFFLINE
        if adb is not None and self._turns.left(adb) and (not adb.for_ms or age_ms < adb.for_ms):
            return adb.state
        return None

    def run(self, argv: Sequence[str]) -> Answer | None:
        """What ``adb -s SN`` with these words ends with; None when it never ends."""
        state = self.state()
        if state is not None:
            self._turns.take(self._behaviour.adb)
            if state is AdbState.WEDGED:
                return None
            return Answer(1, stderr=_refused(argv, ERRORS[state]))
        match argv:
            case ["get-state"]:
                return Answer(stdout="device\n")
            case ["shell", _, *_]:
                return self._shell(" ".join(argv[1:]))
            case ["push", source, target]:
                return self._push(Path(source), target)
        return Answer(1, stderr=f"adb: the stand-in does not know {' '.join(argv)!r}\n")

    def _shell(self, line: str) -> Answer | None:
        splitter = shlex.shlex(line, posix=True, punctuation_chars=True)
        splitter.whitespace_split = True
        try:
            words = list(splitter)
        except ValueError as error:
            return Answer(2, stderr=f"sh: 1: Syntax error: {error}\n")
        out, err, code = "", "", 0
        command: list[str] = []
        wanted = True
        for word in [*words, ";"]:
            if word not in (";", "&&", "||"):
                if word and set(word) <= set("();<>|&"):
                    return Answer(2, stderr=f"sh: 1: the stand-in's shell has no '{word}'\n")
                command.append(word)
                continue
            if command and wanted:
                ended = self._program(command)
                if ended is None:
                    return None
                out, err, code = out + ended.stdout, err + ended.stderr, ended.exit_code
            command = []
            wanted = word == ";" or (code == 0) is (word == "&&")
        return Answer(code, out[:MOST_OUTPUT_BYTES], err[:MOST_OUTPUT_BYTES])

    def _program(self, words: Sequence[str]) -> Answer | None:
        program = self._programs.get(words[0])
        return program(words[1:]) if program is not None else _not_found(words[0])

    def _at(self, path: str) -> Path:
        """Where a path of the Linux side lies in the file area; ``..`` does not lead out of it."""
        inside = posixpath.normpath(posixpath.join("/", path)).lstrip("/")
        return self._folder / inside

    def _content(self, path: str) -> bytes | None:
        if path == "/proc/uptime":
            seconds = monotonic_s() - self._plugged_at_s
            return f"{seconds:.2f} {seconds:.2f}\n".encode()
        place = self._at(path)
        return place.read_bytes() if place.is_file() else None

    def _push(self, source: Path, target: str) -> Answer:
        if not source.is_file():
            text = f"adb: error: cannot stat '{source}': No such file or directory\n"
            return Answer(1, stderr=text)
        place = self._at(target)
        if target.endswith("/") or place.is_dir():
            place, target = place / source.name, posixpath.join(target, source.name)
        if not place.parent.is_dir():
            reason = "remote couldn't create file: No such file or directory"
        elif source.stat().st_size + self._used() > MOST_BYTES:
            reason = "remote write failed: No space left on device"
        else:
            shutil.copyfile(source, place)
            nbytes = place.stat().st_size
            done = f"{source}: 1 file pushed, 0 skipped. 20.0 MB/s ({nbytes} bytes in 0.001s)\n"
            return Answer(stdout=done)
        return Answer(1, stderr=f"adb: error: failed to copy '{source}' to '{target}': {reason}\n")

    def _used(self) -> int:
        files = (each for each in self._folder.rglob("*") if each.is_file())
        return sum(each.stat().st_size for each in files)

    def _mkdir(self, words: Sequence[str]) -> Answer:
        parents = "-p" in words
        for word in (word for word in words if word != "-p"):
            try:
                self._at(word).mkdir(parents=parents, exist_ok=parents)
            except OSError as error:
                text = f"mkdir: cannot create directory '{word}': {error.strerror}\n"
                return Answer(1, stderr=text)
        return Answer()

    def _cat(self, words: Sequence[str]) -> Answer:
        out = ""
        for word in words:
            content = self._content(word)
            if content is None:
                return Answer(1, out, f"cat: {word}: No such file or directory\n")
            out += content.decode("utf-8", "replace")
        return Answer(stdout=out)

    def _sha256sum(self, words: Sequence[str]) -> Answer:
        out = ""
        for word in words:
            content = self._content(word)
            if content is None:
                return Answer(1, out, f"sha256sum: {word}: No such file or directory\n")
            out += f"{hashlib.sha256(content).hexdigest()}  {word}\n"
        return Answer(stdout=out)

    def _rm(self, words: Sequence[str]) -> Answer:
        for word in words:
            if word.startswith("-"):
                continue
            place = self._at(word)
            if place.is_dir() and place != self._folder:
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        return Answer()

    def _ls(self, words: Sequence[str]) -> Answer:
        places = [word for word in words if not word.startswith("-")] or ["/"]
        out = ""
        for word in places:
            place = self._at(word)
            if place.is_dir():
                out += "".join(f"{each.name}\n" for each in sorted(place.iterdir()))
            elif place.exists():
                out += f"{word}\n"
            else:
                text = f"ls: cannot access '{word}': No such file or directory\n"
                return Answer(2, out, text)
        return Answer(stdout=out)

    def _systemctl(self, words: Sequence[str]) -> Answer:
        up = monotonic_s() >= self.router_up_at_s
        match words:
            case ["is-system-running"]:
                return Answer(0, "running\n") if up else Answer(1, "starting\n")
            case ["is-active", unit] if unit.removesuffix(".service") == self._data.router_service:
                return Answer(0, "active\n") if up else Answer(3, "inactive\n")
            case ["is-active", _]:
                return Answer(3, "inactive\n")
        return Answer(1, stderr=f"Unknown command verb {' '.join(words)}.\n")

    def _openocd(self, words: Sequence[str]) -> Answer | None:
        run = OpenOcd(
            self._data, self._chip, self._flash, self._content, self._behaviour, self._turns
        ).run(words)
        return None if run is None else Answer(run.exit_code, stderr=run.stderr)


def _not_found(name: str) -> Answer:
    return Answer(127, stderr=f"sh: 1: {name}: not found\n")


def _refused(argv: Sequence[str], reason: str) -> str:
    if argv[:1] == ["push"]:
        return f"adb: error: failed to get feature set: {reason}\n"
    return f"error: {reason}\n"
