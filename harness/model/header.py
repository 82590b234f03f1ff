"""Turn a program file into ``model.h``, the header that a sketch includes.

What the sketches rely on: the array is called ``model_pte``, its size is ``sizeof(model_pte)``
(so its type must be complete), and it is aligned for the runtime's in-place reader.  The array has
no section of its own: no Arduino core's linker script defines one, and an orphan section may be
dropped or land in RAM.  ``const`` puts it in flash, and ``used`` keeps the compiler from dropping
it where only its address is handed on.
"""

from __future__ import annotations

import re

from harness.errors import UsageError

ALIGNMENT_BYTES = 16
"""What the runtime asks of a program that it reads in place."""

_PER_LINE = 16
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def header_text(program: bytes, *, title: str, name: str = "model_pte") -> str:
    """The text of the header; ``title`` goes into its first comment.

    Raises :class:`UsageError` on an empty program (C++ has no empty arrays) or on a name that is
    no C identifier.  The same program and title always give the same text, so that an unchanged
    model never causes a compile.
    """
    if not program:
        raise UsageError("the program is empty", remedy="export the model again")
    if not _IDENTIFIER.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name an array", remedy="use letters, digits and underscores"
        )
    words = [f"0x{byte:02x}" for byte in program]
    lines = [
        ", ".join(words[start : start + _PER_LINE]) + ","
        for start in range(0, len(words), _PER_LINE)
    ]
    # A title with a line break or a trailing backslash would leave the comment.
    comment = " ".join(title.split()).replace("\\", "/")
    return "\n".join(
        [
            f"// {comment} ({len(program)} bytes)",
            "// Made by the test bench; a new export replaces it.",
            "#pragma once",
            "",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            f"alignas({ALIGNMENT_BYTES}) __attribute__((used)) static const uint8_t {name}[] = {{",
            *lines,
            "};",
            f"__attribute__((unused)) static const size_t {name}_size = sizeof({name});",
            "",
        ]
    )
