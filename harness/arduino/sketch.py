"""Staging: a sketch's folder copied to where its build path survives.

arduino-cli wipes a build path when the list of a sketch's extra files changes, and compares sketch
files by content: so one staging folder belongs to one (board, sketch), files are rewritten only
where they differ, and every staged sketch of a kind has the same list of files.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import DutFailure, UsageError
from harness.storage.cache import write_atomically

SOURCE_SUFFIXES = frozenset({".ino", ".h", ".hpp", ".c", ".cpp", ".cc", ".S", ".inc"})

NONCE_FILE = "hil_nonce.cpp"
"""Staged with every sketch for a board whose memory can be read: it identifies any sketch,
unmodified examples included."""

NONCE_SYMBOL = "hil_build_nonce"
NONCE_DIGITS = 16


@dataclass(frozen=True)
class Sketch:
    """A sketch as files in memory: nothing on disk is needed to know whether it changed.

    ``files`` maps a file name to its bytes; ``source`` is where they came from, for messages.
    """

    name: str
    source: Path
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 over the name and every file."""
        state = hashlib.sha256(self.name.encode())
        for name in sorted(self.files):
            state.update(f"\0{name}\0{len(self.files[name])}\0".encode())
            state.update(self.files[name])
        return state.hexdigest()

    def with_files(self, extra: Mapping[str, bytes]) -> Sketch:
        """The same sketch with files added or replaced."""
        return Sketch(self.name, self.source, {**self.files, **extra})

    def replacing(self, old: str, new: str) -> Sketch:
        """The same sketch with one text in its ``.ino`` replaced.

        Raises :class:`UsageError` unless ``old`` occurs exactly once, since a replacement that
        silently does nothing would test the wrong thing.
        """
        main = f"{self.name}.ino"
        text = self.files[main].decode("utf-8", "replace")
        if text.count(old) != 1:
            raise UsageError(
                f"{old!r} occurs {text.count(old)} times in {main}, not once",
                remedy="upstream changed the sketch: adapt the variant to its new text",
            )
        return self.with_files({main: text.replace(old, new).encode()})


def read_sketch(folder: Path) -> Sketch:
    """Read a sketch's folder; raises :class:`UsageError` when it is not one."""
    main = folder / f"{folder.name}.ino"
    if not main.is_file():
        raise UsageError(
            f"{folder} is not a sketch: it has no {main.name}",
            remedy="name a folder that holds a .ino file of the same name",
        )
    files = {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix in SOURCE_SUFFIXES
    }
    return Sketch(folder.name, folder, files)


def require_model(sketch: Sketch) -> None:
    """Raise :class:`DutFailure` when the sketch includes a ``model.h`` that is not there.

    Said before compiling: the compiler's own message names upstream's script, not the cause.
    """
    main = sketch.files[f"{sketch.name}.ino"]
    if b'"model.h"' in main and "model.h" not in sketch.files:
        raise DutFailure(
            f"sketch {sketch.name!r} includes model.h, but {sketch.source} has none",
            remedy="export the model and write its header there; the library's build script makes"
            " it from model.pte",
        )


_NONCE_TEXT = """// Written by the bench: which build this is, where its Linux side can read it.
extern "C" __attribute__((used, aligned(4))) const char {symbol}[{size}] = "{nonce}";

// The linker drops what nothing refers to, and GCC for bare Arm ignores the attribute "retain"; a
// constructor is always kept.
__attribute__((constructor, used)) static void keep_nonce() {{
  __asm volatile("" : : "r"({symbol}));
}}
"""


def nonce_source(nonce: str) -> bytes:
    """The file that puts a build's nonce into flash, where it stays whatever else is dropped."""
    return _NONCE_TEXT.format(
        symbol=NONCE_SYMBOL, size=NONCE_DIGITS + 1, nonce=f"{nonce:0>{NONCE_DIGITS}}"
    ).encode()


def refuse_profile(folder: Path) -> None:
    """Raise :class:`UsageError` when a sketch's folder chooses a build profile of its own.

    With ``default_profile`` in ``sketch.yaml`` arduino-cli ignores ``--library`` without a word,
    and takes core and libraries from the profile.
    """
    for name in ("sketch.yaml", "sketch.yml"):
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found = re.search(r"^default_profile\s*:\s*[\"']?([^\s\"'#]+)", text, re.M)
        if found is not None:
            raise UsageError(
                f"sketch {folder.name!r} has default_profile {found[1]!r} in its {name}, with which"
                " arduino-cli ignores --library and the core under test",
                remedy=f"remove default_profile from {folder / name}",
            )


def stage(sketch: Sketch, folder: Path) -> Path:
    """Write the sketch into ``folder/<name>``, touching only what differs; returns that path."""
    target = folder / sketch.name
    target.mkdir(parents=True, exist_ok=True)
    for path in target.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in sketch.files:
            path.unlink()
    for name, content in sketch.files.items():
        path = target / name
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)
    return target
