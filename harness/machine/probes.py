"""Looking at this machine for ``hil doctor``: each function returns what it found, or raises.

What a function raises has the problem as its message and what to do as its remedy.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from harness.arduino.core_home import cores_dir, installed_versions
from harness.errors import BenchError, CapabilityMissing, DeviceError
from harness.library.checkout import open_checkout
from harness.library.provenance import wheel_folder
from harness.library.wheel import OBJECTS
from harness.machine.config import Config, how_to_configure
from harness.machine.requirement import QEMU
from harness.machine.tool import find, qemu_machines
from harness.paths import cache_dir, platform_dir, run_dir

DISTRIBUTION = "executorch-hil"

PYTHON_PACKAGES = ("executorch", "torch", "tosa-tools")
"""Those whose exact version decides what an export gives."""

FREE_BYTES = 2_000_000_000
"""Room that builds and exports of every board and model take, with a margin."""

SOCKET_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux."""

_SOCKET_BELOW_RUN_DIR = "boards/HILM4F0001/control.sock"
_SET_UP = "run 'make demo', or install it from requirements.txt"


def python_package(name: str) -> str:
    """Its version, which is the one that this project pins."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError as error:
        raise CapabilityMissing(
            f"the Python package {name!r} is not installed for {sys.executable}", remedy=_SET_UP
        ) from error
    pinned = _pins().get(name)
    # A build for another backend has a local part, such as 2.14.1+cpu.
    if pinned is not None and version.split("+")[0] != pinned:
        raise CapabilityMissing(
            f"the Python package {name!r} is {version}, and {pinned} is pinned: another version"
            " exports other bytes",
            remedy=_SET_UP,
        )
    return version


def _pins() -> Mapping[str, str]:
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}  # run from its files alone: any version has to do
    found = (re.fullmatch(r"([\w.-]+)==([^\s;]+)", line) for line in lines)
    return {each[1]: each[2] for each in found if each is not None}


def wheel_runtime() -> str:
    """The folder with the host board's runtime."""
    folder = wheel_folder()
    missing = [name for name in OBJECTS if not (folder / "lib" / f"lib{name}.so").is_file()]
    if missing:
        raise CapabilityMissing(
            f"the executorch wheel has no lib{missing[0]}.so, so the host board has no runtime",
            remedy="install the wheel for Linux, or name a checkout",
        )
    return str(folder)


def arduino_platform() -> str:
    """The folder of our Arduino platforms."""
    platform = platform_dir() / "hil" / "virtual"
    for name in ("platform.txt", "boards.txt"):
        if not (platform / name).is_file():
            raise BenchError(
                f"{str(platform / name)!r} is missing from the bench's own files",
                remedy="restore it, or install the bench again",
            )
    return str(platform)


def cache_folder() -> str:
    """The cache folder, where a file could be written just now."""
    return _writable(cache_dir(), "HIL_CACHE")


def run_folder() -> str:
    """The folder of sockets and ports, which a socket's path fits into."""
    folder = run_dir()
    length = len(os.fsencode(folder / _SOCKET_BELOW_RUN_DIR))
    if length > SOCKET_PATH_BYTES:
        raise BenchError(
            f"{str(folder)!r} is too long: a socket in it has a path of {length} bytes,"
            f" and {SOCKET_PATH_BYTES} is the most",
            remedy="set HIL_RUN_DIR to a short path",
        )
    return _writable(folder, "HIL_RUN_DIR")


def _writable(folder: Path, variable: str) -> str:
    # A folder that does not exist yet is looked at through the nearest one that does.
    place = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise BenchError(
            f"cannot write to {str(place)!r}: {error.strerror or error}",
            remedy=f"mend its permissions, or set {variable} to a folder that can be written to",
        ) from error
    return str(folder)


def free_disk() -> str:
    """The free space where the cache is, which is enough."""
    folder = cache_dir()
    place = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(place).free
    if free < FREE_BYTES:
        raise BenchError(
            f"{free / 1e9:.1f} GB are free for {str(folder)!r}; builds and models of every board"
            f" take up to {FREE_BYTES / 1e9:g} GB",
            remedy="free some, or set HIL_CACHE to a folder on another disk",
        )
    return f"{free / 1e9:.0f} GB"


def pseudo_terminals() -> str:
    """A pseudo-terminal could be made just now."""
    try:
        near, far = pty.openpty()
    except OSError as error:
        raise BenchError(
            f"cannot make a pseudo-terminal: {error.strerror or error}",
            remedy="mount devpts at /dev/pts, which containers may lack",
        ) from error
    name = os.ttyname(far)
    os.close(near)
    os.close(far)
    return f"such as {name}"


def emulated_machines(boards: Mapping[str, str]) -> str:
    """That QEMU has every machine of ``boards``, which maps machines to board names."""
    has = qemu_machines(find(QEMU))
    missing = [
        f"{machine!r} (board {name!r})" for machine, name in boards.items() if machine not in has
    ]
    if missing:
        raise CapabilityMissing(
            f"{QEMU.program!r} has no machine {', '.join(missing)}",
            remedy="install a QEMU that has it",
        )
    return ", ".join(sorted(boards))


def checkout(config: Config) -> str:
    """The configured ExecuTorch checkout, which has everything that the library is made of."""
    if config.executorch is None:
        raise CapabilityMissing("no ExecuTorch checkout is configured", remedy=how_to_configure())
    found = open_checkout(config.executorch)
    return f"{found.path} at {(found.commit or 'an unknown commit')[:12]}"


def board_core(core: str) -> str:
    """The installed versions of an Arduino core (``vendor:architecture``), each with its adb."""
    found = {}
    for home in sorted(cores_dir().glob(f"{core.replace(':', '-')}-*")):
        for version in installed_versions(home, core):
            tools = home / "data" / "packages" / core.split(":")[0] / "tools"
            found[version] = any(tools.glob("adb/*/adb")) or shutil.which("adb") is not None
    if not found:
        raise CapabilityMissing(
            f"the Arduino core {core!r} is not installed for the bench",
            remedy="run 'hil core install VERSION'; 'hil core list' has the versions",
        )
    without = [version for version, has_adb in found.items() if not has_adb]
    if without:
        raise CapabilityMissing(
            f"the Arduino core {core!r} {without[0]} came without adb",
            remedy="install adb (Debian: apt install adb), or name it in the configuration:"
            ' adb = "PATH"',
        )
    return ", ".join(found)


def serial_ports(folder: Path = Path("/dev")) -> str:
    """The serial ports that this user may open."""
    ports = sorted(
        port for pattern in ("ttyACM*", "ttyUSB*", "cu.usbmodem*") for port in folder.glob(pattern)
    )
    if not ports:
        raise DeviceError(
            "no serial port is there, so no board is connected",
            remedy="connect one by a USB data cable",
        )
    usable = [port for port in ports if os.access(port, os.R_OK | os.W_OK)]
    if not usable:
        raise DeviceError(
            f"{str(ports[0])!r} may not be opened by this user",
            remedy='sudo usermod -aG dialout "$USER", then log in again',
        )
    return ", ".join(str(port) for port in usable)
