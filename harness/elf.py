"""What an ELF holds: loadable sections, for comparing images, and symbols, for naming places."""

from __future__ import annotations

import hashlib
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from harness.errors import ToolError


def section_digests(path: Path) -> dict[str, str]:
    """``name -> "<size> <sha256 prefix>"`` for each section that occupies memory.

    The build-id note is left out: it differs whenever anything in the debug information does.
    Raises :class:`ToolError` when the file is not an ELF.
    """
    try:
        with path.open("rb") as stream:
            found: dict[str, str] = {}
            for section in ELFFile(stream).iter_sections():
                if not section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                    continue
                if section.name == ".note.gnu.build-id":
                    continue
                content = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
                digest = hashlib.sha256(content).hexdigest()[:16]
                found[section.name] = f"{section['sh_size']} {digest}"
            return found
    except (OSError, ELFError, ValueError) as error:
        raise ToolError(
            f"{path.name} is not a readable ELF: {error}", remedy="build the sketch again"
        ) from error
