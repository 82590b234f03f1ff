"""One folder of arduino-cli's for each version of a board core, real or stand-in.

So several versions exist at once and a run names the one it used.  arduino-cli takes a platform of
its data folder before any other, so each folder may hold one version only.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.arduino.cli import (
    CONFIG,
    ArduinoCli,
    configuration,
    lay_out,
    link_interpreter,
    link_to,
)
from harness.arduino.standin import Platform, router_bridge_dir, standin_platform
from harness.boards.board import Board, CoreVersion
from harness.errors import BenchError, CapabilityMissing, ToolError, UsageError
from harness.machine.config import Config, load_config
from harness.machine.tool import find_arduino_cli
from harness.paths import cache_dir, platform_dir
from harness.storage.atomic_file import write_atomically
from harness.storage.digest import (
    file_digest,
    files_digest,
    parts_digest,
    text_digest,
    tree_digest,
    tree_files,
)
from harness.storage.lock import hold

PACKAGE_INDEX = "https://downloads.arduino.cc/packages/package_zephyr_index.json"
"""Where arduino-cli finds the Zephyr core; from the README of arduino/ArduinoCore-zephyr."""

STANDIN_TEXT = (
    "a stand-in ran, not an Arduino Uno Q: the bench's own core and C library under the board's"
    " FQBN, an emulated chip and a model of its Linux side; it shows neither the real core's kernel"
    " and loader, nor time on silicon, nor USB"
)
"""What every report of a stand-in says."""

_RECORD = "layout.json"


@dataclass(frozen=True)
class CoreHome:
    """One version of a board core, and where arduino-cli finds it.

    ``virtual``: a stand-in.  ``image_key`` and ``objects_key`` are digests of what an image, and a
    library's objects, depend on in it.
    """

    platform: str
    version: str
    home: Path
    virtual: bool
    image_key: str
    objects_key: str

    @property
    def platform_path(self) -> Path:
        """The folder of the platform's files."""
        return _hardware(self.home, self.platform) / self.version

    @property
    def build_name(self) -> str:
        """What keeps build paths of two cores apart."""
        return f"{self.version}-standin" if self.virtual else self.version


def open_core(board: Board, core: CoreVersion, *, virtual: bool) -> ArduinoCli:
    """arduino-cli with one version of the board's core.

    A stand-in is laid out where it is missing or old.  Raises :class:`CapabilityMissing` when a
    real core is not installed, :class:`ToolError` when its folder holds another version, and
    :class:`UsageError` when the board has no stand-in.
    """
    binary = find_arduino_cli()
    if virtual:
        return _open_standin(binary, board, core)
    home = real_home(board.platform, core.version)
    require_only_version(home, board.platform, core.version)
    write_configuration(home)
    link_interpreter(home)
    key = parts_digest(*_real_key(home, board.platform, core.version))
    return ArduinoCli(
        binary=binary,
        config=home / CONFIG,
        home=home,
        core=CoreHome(board.platform, core.version, home, False, key, key),
    )


def real_home(platform: str, version: str) -> Path:
    """Where the bench keeps an installed core."""
    return cores_dir() / f"{platform.replace(':', '-')}-{version}"


def cores_dir() -> Path:
    """Where the bench keeps every installed core."""
    return cache_dir() / "arduino" / "cores"


def standin_home(version: str) -> Path:
    """Where the stand-in of one core version lies; two checkouts of the bench see their own."""
    return cache_dir() / "arduino" / text_digest(str(platform_dir()))[:12] / f"standin-{version}"


def write_configuration(home: Path) -> Path:
    """arduino-cli's configuration for a home that installs from the network; returns its path."""
    text = configuration(home, indexes=(PACKAGE_INDEX,)).encode()
    path = home / CONFIG
    if not path.is_file() or path.read_bytes() != text:
        write_atomically(path, text)
    return path


def installed_versions(home: Path, platform: str) -> tuple[str, ...]:
    """Every version of ``platform`` that arduino-cli would find in this home."""
    folder = _hardware(home, platform)
    if not folder.is_dir():
        return ()
    return tuple(sorted(path.parent.name for path in folder.glob("*/boards.txt")))


def require_only_version(home: Path, platform: str, version: str) -> None:
    """See that arduino-cli can only take ``version`` there.

    Raises :class:`CapabilityMissing` when there is none, :class:`ToolError` when there is another.
    """
    found = installed_versions(home, platform)
    if not found:
        raise CapabilityMissing(
            f"Arduino core {platform} {version} is not installed for the bench",
            remedy=f"hil core install {version}",
        )
    others = [each for each in found if each != version]
    if others:
        raise ToolError(
            f"the bench's folder for core {platform} {version} holds version"
            f" {' and '.join(others)}, which arduino-cli may take instead",
            remedy=f"delete {_hardware(home, platform) / others[0]}, or the whole folder and run"
            f" 'hil core install {version}'",
            evidence=tuple(str(_hardware(home, platform) / each) for each in found),
        )


def find_adb(cli: ArduinoCli) -> Path:
    """The adb that goes with a core: the configured one, the core's, or the one on PATH.

    A stand-in's boards are seen by its own adb only.  Raises :class:`CapabilityMissing`.
    """
    virtual = cli.core is not None and cli.core.virtual
    named = None if virtual else load_config().adb
    if named is not None:
        if not named.is_file():
            raise CapabilityMissing(
                f"the configured adb {str(named)!r} does not exist",
                remedy="correct the key adb of the user's configuration, or remove it",
            )
        return named
    tools = sorted((cli.home / "data" / "packages").glob("*/tools/adb/*/adb"))
    if tools:
        return tools[-1]
    on_path = None if virtual else shutil.which("adb")
    if on_path is None:
        raise CapabilityMissing(
            "there is no adb: neither configured, nor with the board's core, nor on PATH",
            remedy="install the core with 'hil core install', which brings adb, or put adb on PATH",
        )
    return Path(on_path)


def _hardware(home: Path, platform: str) -> Path:
    vendor, architecture = platform.split(":")
    return home / "data" / "packages" / vendor / "hardware" / architecture


def _real_key(home: Path, platform: str, version: str) -> Iterator[str]:
    """What stands for an installed core: its own description, its tools and its libraries."""
    yield f"{platform} {version}"
    folder = _hardware(home, platform) / version
    for path in sorted(folder.glob("*.txt")):
        yield f"{path.name} {file_digest(path)}"
    packages = home / "data" / "packages"
    yield "\n".join(
        sorted(str(each.relative_to(packages)) for each in packages.glob("*/tools/*/*"))
    )
    yield _tree_key(home / "user" / "libraries")


def _tree_key(folder: Path) -> str:
    return tree_digest(folder) if folder.is_dir() else ""


def _open_standin(binary: Path, board: Board, core: CoreVersion) -> ArduinoCli:
    platform = standin_platform(board, core)
    settings = load_config()
    home = standin_home(core.version)
    bridge = _router_bridge(settings)
    record = {
        "platform": platform.key,
        "discovery": file_digest(_discovery()),
        "remoteocd": str(settings.remoteocd or ""),
        "router_bridge": str(bridge),
        "configuration": text_digest(configuration(home)),
    }

    def laid_out() -> bool:
        there = (
            *(_hardware(home, board.platform) / core.version / name for name in platform.files),
            home / "user" / "libraries" / bridge.name,
            home / CONFIG,
        )
        return _recorded(home) == record and all(path.exists() for path in there)

    if not laid_out():
        with hold(home.with_suffix(".lock"), purpose=f"laying out the stand-in {core.version}"):
            if not laid_out():
                _lay_out_standin(home, board.platform, core.version, platform, settings, bridge)
                write_atomically(home / _RECORD, json.dumps(record, indent=1).encode())
    link_interpreter(home)
    require_only_version(home, board.platform, core.version)
    library, headers = _library_keys(bridge)
    return ArduinoCli(
        binary=binary,
        config=home / CONFIG,
        home=home,
        core=CoreHome(
            board.platform,
            core.version,
            home,
            virtual=True,
            image_key=parts_digest(platform.image_key, library),
            objects_key=parts_digest(platform.objects_key, headers),
        ),
    )


def _router_bridge(settings: Config) -> Path:
    named = settings.router_bridge
    if named is None:
        return router_bridge_dir()
    if not (named / "library.properties").is_file():
        raise UsageError(
            f"the configured router_bridge {str(named)!r} is no Arduino library",
            remedy="name the folder that holds library.properties, or remove the key",
        )
    return named


def _library_keys(folder: Path) -> tuple[str, str]:
    """Digests of a library, and of its headers alone."""
    files = tree_files(folder)
    headers = [each for each in files if each.path.suffix in (".h", ".hpp")]
    return files_digest(files), files_digest(headers)


def _recorded(home: Path) -> Mapping[str, str] | None:
    with suppress(OSError, ValueError):
        found = json.loads((home / _RECORD).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    return None


def _discovery() -> Path:
    return platform_dir() / "hil" / "virtual" / "tools" / "discovery.py"


_DISCOVERY = """#!/bin/sh
# In the place of arduino-cli's own: sees the boards that 'hil emulate' has plugged in.
exec python3 -I -S -E "$(dirname "$0")/discovery.py"
"""


def _lay_out_standin(
    home: Path,
    platform: str,
    version: str,
    made: Platform,
    settings: Config,
    bridge: Path,
) -> None:
    try:
        lay_out(home)
        _mirror(_hardware(home, platform) / version, made.files)
        packages = home / "data" / "packages"
        tools = packages / platform.split(":")[0] / "tools"
        for name, data in made.tools.items():
            _write(tools / name, data, mode=0o755)
            link_to(home / "bin" / Path(name).name, tools / name)
        if settings.remoteocd is not None:
            path = next(tools / name for name in made.tools if name.startswith("remoteocd/"))
            path.unlink()
            link_to(path, settings.remoteocd)
        serial = packages / "builtin" / "tools" / "serial-discovery" / "0.0.0"
        _write(serial / "discovery.py", _discovery().read_bytes(), mode=0o644)
        _write(serial / "serial-discovery", _DISCOVERY.encode(), mode=0o755)
        libraries = home / "user" / "libraries"
        for other in libraries.iterdir() if libraries.is_dir() else ():
            other.unlink()
        link_to(libraries / bridge.name, bridge)
        write_atomically(home / CONFIG, configuration(home).encode())
    except OSError as error:
        raise BenchError(
            f"cannot lay out the stand-in of core {version} in {str(home)!r}: {error}",
            remedy="check that this folder may be written and has room, or set HIL_CACHE",
        ) from error


def _mirror(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make ``folder`` hold exactly ``files``, touching only what differs.

    arduino-cli builds everything anew when a platform's text is newer than a build path.
    """
    if folder.is_dir():
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):
                    path.rmdir()
            elif str(path.relative_to(folder)) not in files:
                path.unlink()
    for name, data in files.items():
        _write(folder / name, data, mode=0o644)


def _write(path: Path, data: bytes, *, mode: int) -> None:
    if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
        write_atomically(path, data, mode=mode)
