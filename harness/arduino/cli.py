"""The real arduino-cli, with a configuration, data folder and build cache of the bench's own.

Nothing here reads or writes the user's own Arduino folders, and on the virtual lanes nothing can
reach the network: both indexes are seeded empty, and the built-in discoveries are replaced by one
that finds nothing.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import process
from harness.errors import ToolError
from harness.machine.tool import find_arduino_cli, find_ctags
from harness.paths import cache_dir, platform_dir
from harness.storage.cache import write_atomically
from harness.storage.digest import text_digest

if TYPE_CHECKING:
    from harness.arduino.core_home import CoreHome

DISCOVERY_TIMEOUT = "10s"
"""With the CLI's own 1 s a slow discovery is missed without a word, and the upload tool then gets
``{upload.port.properties.serialNumber}`` unexpanded."""

CONFIG = "arduino-cli.yaml"
"""The configuration's name in the bench's Arduino folders."""

_LAYOUT = 2

_BIN = "bin"
"""Folder below the bench's Arduino folders that comes first on the PATH of its arduino-cli."""

_EMPTY_DISCOVERY = """#!/bin/sh
# Speaks the pluggable discovery protocol and finds nothing, so that the CLI looks for no download.
while read -r command _; do
  case "$command" in
    HELLO) echo '{"eventType":"hello","protocolVersion":1,"message":"OK"}' ;;
    START) echo '{"eventType":"start","message":"OK"}' ;;
    START_SYNC) echo '{"eventType":"start_sync","message":"OK"}' ;;
    STOP) echo '{"eventType":"stop","message":"OK"}' ;;
    LIST) echo '{"eventType":"list","ports":[]}' ;;
    QUIT) echo '{"eventType":"quit","message":"OK"}'; exit 0 ;;
    *) echo '{"eventType":"command_error","error":true,"message":"unknown command"}' ;;
  esac
done
"""


@dataclass(frozen=True)
class ArduinoCli:
    """One arduino-cli with the folders it works in.

    ``core`` is the board core that those folders hold; None for the bench's own platform.
    """

    binary: Path
    config: Path
    home: Path
    core: CoreHome | None = None

    def environment(self) -> dict[str, str]:
        """The caller's environment without any ``ARDUINO_`` setting of the user's.

        The platform's tools are started as ``python3``: this bench's own interpreter comes first,
        since the first one on a user's PATH may be a version manager's script that takes longer to
        start than arduino-cli waits for a discovery.
        """
        kept = {key: value for key, value in os.environ.items() if not key.startswith("ARDUINO_")}
        kept["LC_ALL"] = "C"
        kept["PATH"] = os.pathsep.join((str(self.home / _BIN), kept.get("PATH", os.defpath)))
        return kept

    def command_line(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """The whole command line: the bench's configuration, then ``arguments``."""
        return (str(self.binary), "--config-file", str(self.config), *arguments)

    def run(
        self,
        arguments: Sequence[str],
        *,
        timeout_s: float,
    ) -> process.Completed:
        """Run with the bench's configuration; a non-zero exit is for the caller to explain."""
        return process.run(
            self.command_line(arguments),
            timeout_s=timeout_s,
            env=self.environment(),
        )


def open_cli() -> ArduinoCli:
    """Find arduino-cli and lay out its folders, which takes no time when they are there.

    Raises :class:`ToolError` when no supported arduino-cli is installed.
    """
    binary = find_arduino_cli()
    platform = platform_dir()
    # Two checkouts of the bench may share one cache: each sees its own platform.
    home = cache_dir() / "arduino" / text_digest(str(platform))[:12]
    config = home / CONFIG
    text = configuration(home)
    if not config.is_file() or config.read_text(encoding="utf-8") != text:
        lay_out(home)
        for vendor in platform.iterdir():
            if vendor.is_dir():
                link_to(home / "user" / "hardware" / vendor.name, vendor)
        write_atomically(config, text.encode())
    link_interpreter(home)
    return ArduinoCli(binary=binary, config=config, home=home)


def link_interpreter(home: Path) -> None:
    """Put the bench's own Python first on the PATH of the tools that arduino-cli starts."""
    link_to(home / _BIN / "python3", Path(sys.executable).resolve())


def configuration(home: Path, *, indexes: Sequence[str] = ()) -> str:
    """The text of arduino-cli's configuration for these folders.

    ``indexes`` are package indexes beside Arduino's own, which only a home that installs reads.
    """
    lines = [
        f"# folders laid out as of {_LAYOUT}: a change of this line lays them out again",
        "directories:",
        f"  data: {json.dumps(str(home / 'data'))}",
        f"  downloads: {json.dumps(str(home / 'downloads'))}",
        f"  user: {json.dumps(str(home / 'user'))}",
        "build_cache:",
        f"  path: {json.dumps(str(home / 'build-cache'))}",
        "library:",
        "  enable_unsafe_install: false",
        "network:",
        "  cloud_api:",
        "    skip_board_detection_calls: true",
        "updater:",
        "  enable_notification: false",
        "metrics:",
        "  enabled: false",
        *(("board_manager:", "  additional_urls:") if indexes else ()),
        *(f"    - {json.dumps(index)}" for index in indexes),
    ]
    return "\n".join(lines) + "\n"


def lay_out(home: Path) -> None:
    """Make the folders, with nothing in them that arduino-cli would look for on the network."""
    data = home / "data"
    for folder in (data, home / "downloads", home / "user" / "hardware", home / "build-cache"):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(data / "package_index.json", b'{"packages":[]}\n')
    write_atomically(data / "library_index.json", b'{"libraries":[]}\n')
    for name in ("serial-discovery", "mdns-discovery"):
        tool = data / "packages" / "builtin" / "tools" / name / "0.0.0" / name
        tool.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(tool, _EMPTY_DISCOVERY.encode(), mode=0o755)
    # A packager's ctags in the place of the CLI's own, which it would try to download.
    if (ctags := find_ctags()) is not None:
        link_to(
            data / "packages" / "builtin" / "tools" / "ctags" / "5.8-arduino11" / "ctags", ctags
        )


def link_to(link: Path, target: Path) -> None:
    """Make ``link`` lead to ``target``, whatever it was before."""
    if link.is_symlink() and link.readlink() == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, since another session may be about to use it, or to make it as well.
    made = link.with_name(f".{link.name}-{os.getpid()}")
    made.unlink(missing_ok=True)
    made.symlink_to(target)
    made.replace(link)


def compile_arguments(
    *,
    fqbn: str,
    sketch: Path,
    build_path: Path,
    library: Path | None,
    properties: Mapping[str, str],
    jobs: int,
) -> tuple[str, ...]:
    """The arguments of ``arduino-cli compile``, after the configuration."""
    return (
        "compile",
        "--json",
        "--fqbn",
        fqbn,
        "--build-path",
        str(build_path),
        "--jobs",
        str(jobs),
        *(("--library", str(library)) if library is not None else ()),
        *(
            argument
            for key, value in properties.items()
            for argument in ("--build-property", f"{key}={value}")
        ),
        str(sketch),
    )


def upload_arguments(
    *,
    fqbn: str,
    address: str,
    input_dir: Path,
    properties: Mapping[str, str] | None = None,
    streamed: bool = False,
) -> tuple[str, ...]:
    """The arguments of ``arduino-cli upload``, after the configuration.

    With ``streamed`` arduino-cli passes on what the tool prints at once, not at the end as JSON.
    """
    return (
        "upload",
        *(() if streamed else ("--json",)),
        "--discovery-timeout",
        DISCOVERY_TIMEOUT,
        "--fqbn",
        fqbn,
        "-p",
        address,
        "--input-dir",
        str(input_dir),
        *(
            argument
            for key, value in (properties or {}).items()
            for argument in ("--upload-property", f"{key}={value}")
        ),
    )


def board_list_arguments() -> tuple[str, ...]:
    """The arguments of ``arduino-cli board list``, after the configuration."""
    return ("board", "list", "--json")


def read_json(text: str, *, command: str) -> dict[str, object]:
    """The JSON object that ``command`` printed; raises :class:`ToolError` for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(
            f"'arduino-cli {command}' did not print JSON: {error}",
            remedy="run 'hil doctor' to check which arduino-cli is used",
            evidence=tuple(text.splitlines()[-8:]),
        ) from error
    if not isinstance(value, dict):
        raise ToolError(
            f"'arduino-cli {command}' printed JSON that is not an object",
            remedy="run 'hil doctor' to check which arduino-cli is used",
            evidence=tuple(text.splitlines()[-8:]),
        )
    return value


def failure_text(done: process.Completed) -> str:
    """What a failed call says of itself: compile failures print JSON on standard output,
    upload and argument failures on standard error, and some print nothing at all.
    """
    pieces: list[str] = []
    for text in (done.stdout, done.stderr):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            pieces.append(text)
            continue
        if isinstance(value, dict):
            # A failed upload puts what its tool said into "output", once more by stream.
            said = value.get("output")
            values = {**value, **said, "output": None} if isinstance(said, dict) else value
            pieces.extend(
                str(values[key])
                for key in ("compiler_out", "compiler_err", "stdout", "stderr", "error", "output")
                if values.get(key)
            )
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(pieces))
