"""``boards.txt`` of the bench's own Arduino platform, generated from ``boards/*.toml``.

``python -m harness.boards.boards_txt`` rewrites it; a test fails when the two have drifted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.boards.board import Board, load_boards
from harness.paths import platform_dir
from harness.storage.atomic_file import write_atomically

VENDOR, ARCHITECTURE = "hil", "virtual"

_HOSTED = (
    "prefix", "c.specs", "cpp.specs", "flags", "cpp.flags", "link.flags"
)  # fmt: skip


def boards_txt_path() -> Path:
    """Where the generated file lies."""
    return platform_dir() / VENDOR / ARCHITECTURE / "boards.txt"


def boards_txt(boards: Sequence[Board]) -> str:
    """The file's text for every board of our own platform."""
    own = [board for board in boards if board.fqbn.startswith(f"{VENDOR}:{ARCHITECTURE}:")]
    blocks = ["\n".join(_lines(board)) for board in own]
    return "# Generated from boards/*.toml; do not edit.\n\n" + "\n\n".join(blocks) + "\n"


def _lines(board: Board) -> list[str]:
    core = board.default_core_version
    emulation = board.emulation
    values = {
        "name": board.title,
        "upload_port.0.vid": board.usb.vid,
        "upload_port.0.pid": board.usb.pid,
        "upload.protocol": board.upload_method,
        "upload.tool.default": board.upload_method,
        "upload.maximum_size": str(core.flash_bytes),
        "upload.maximum_data_size": str(core.ram_bytes),
        "build.board": f"HIL_{board.name.upper()}",
        "build.board_name": board.name,
        "build.core": "hil",
        "build.variant": "native" if emulation is None else emulation.variant,
        "build.mcu": board.core,
    }
    if emulation is None:
        values |= {f"build.toolchain.{key}": f"{{toolchain.hosted.{key}}}" for key in _HOSTED}
    else:
        values["build.cpu_flags"] = " ".join(emulation.cpu_flags)
        values["build.icount_shift"] = str(emulation.icount_shift)
    return [f"{board.name}.{key}={value}" for key, value in values.items()]


if __name__ == "__main__":
    write_atomically(boards_txt_path(), boards_txt(load_boards()).encode())
