"""The programs the bench runs from outside, as data: package, version, and why that version."""

from __future__ import annotations

import re
from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True)
class Requirement:
    """A program the bench runs: how to ask its version and which versions will do.

    ``least`` is included, ``below`` is not; None is no limit.  ``package`` is Debian's and
    Ubuntu's name.  ``reason`` says where the limits are from.
    """

    program: str
    package: str
    version_arguments: tuple[str, ...]
    version_pattern: str
    least: Version | None = None
    below: Version | None = None
    reason: str = ""

    @property
    def range_text(self) -> str:
        """The supported range in words, e.g. ``1.1.0 or newer, below 2``."""
        least = f"{_dotted(self.least)} or newer" if self.least else ""
        below = f"below {_dotted(self.below)}" if self.below else ""
        return ", ".join(part for part in (least, below) if part) or "any version"

    @property
    def remedy(self) -> str:
        """What to do where it is missing."""
        return f"install the Debian or Ubuntu package {self.package!r}; 'make demo' does so"


ARDUINO_CLI = Requirement(
    program="arduino-cli",
    package="",
    version_arguments=("version",),
    version_pattern=r"Version: (\S+)",
    least=(1, 1, 0),
    below=(2,),
    reason="--upload-property came with 1.1.0; a next major may change the JSON that is read",
)
CTAGS = Requirement(
    program="arduino-ctags",
    package="arduino-ctags",
    version_arguments=("--version",),
    version_pattern=r"^(.*?),",
)
HOST_CXX = Requirement(
    program="g++",
    package="g++",
    version_arguments=("-dumpfullversion",),
    version_pattern=r"([\d.]+)",
    least=(9,),
    reason="the runtime's headers need C++17",
)
CROSS_CXX = Requirement(
    program="arm-none-eabi-g++",
    package="gcc-arm-none-eabi",
    version_arguments=("-dumpfullversion",),
    version_pattern=r"([\d.]+)",
    least=(12,),
    reason="the Uno Q's cores are built with 12.2, and the figures here were measured with it",
)
QEMU = Requirement(
    program="qemu-system-arm",
    package="qemu-system-arm",
    version_arguments=("--version",),
    version_pattern=r"version ([\d.]+)",
    least=(7, 0),
    reason="measured with 7.2; which machines it has is checked by name",
)
CCACHE = Requirement(
    program="ccache",
    package="ccache",
    version_arguments=("--version",),
    version_pattern=r"version ([\d.]+)",
)
GIT = Requirement(
    program="git",
    package="git",
    version_arguments=("--version",),
    version_pattern=r"version ([\d.]+)",
)


def read_version(text: str) -> Version | None:
    """The leading numbers of a version, e.g. ``(1, 5, 1)`` of ``1.5.1-rc.1``; None without any."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return None if found is None else tuple(int(part) for part in found[1].split("."))


def _dotted(version: Version | None) -> str:
    return ".".join(str(part) for part in version or ())
