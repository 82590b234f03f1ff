"""The stand-in's Arduino platform under a real board's FQBN, as files in memory.

Templates lie in ``boards/standin``, the core is the one of the bench's own boards, and what differs
between core versions comes from the board's file: so a core version is data here too.  What it
cannot show: another C library, another kernel, a loader, and any figure that depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.boards.board import Board, CoreVersion, Emulation, LinuxSide
from harness.errors import UsageError
from harness.paths import boards_dir, platform_dir
from harness.storage.digest import bytes_digest, parts_digest, tree_files

REAL_CORE = "arduino"
"""Name of the core's folder, as in the real boards.txt."""

MACHINE_VARIANTS = {"mps2-an505": "an505"}
"""Which variant of the bench's own platform describes the emulated machine's registers."""

RECIPES = {"size -A": "size-a.txt", "zephyr-check-size": "zephyr-check-size.txt"}
"""The file with what goes with a size recipe, by ``size_recipe`` of the board's file."""

CEILINGS_IN_LOCAL = frozenset({"zephyr-check-size"})
"""Size recipes of the cores that keep ceilings in boards.local.txt, which their build writes."""

TOOL_VERSIONS = {
    "adb": "32.0.0",
    "remoteocd": "0.1.1",
    "zephyr-sketch-tool": "0.4.1",
    "zephyr-check-size": "0.1.0",
}
"""Tools and versions as users' logs of the real core name them."""

_OBJECT_INPUTS = (".h", "/platform.txt", "/machine_flags.txt")


@dataclass(frozen=True)
class Platform:
    """A platform's files by name below its folder; its tools' by ``<name>/<version>/<name>``."""

    files: Mapping[str, bytes]
    tools: Mapping[str, bytes]

    @property
    def image_key(self) -> str:
        """Digest of everything that an image depends on."""
        tools = {name: data for name, data in self.tools.items() if name.startswith("zephyr-")}
        return _digest({**self.files, **tools})

    @property
    def objects_key(self) -> str:
        """Digest of what a library's objects depend on: the same for all versions of the core."""
        return _digest(
            {
                name: _recipes_only(data) if name == "platform.txt" else data
                for name, data in self.files.items()
                if f"/{name}".endswith(_OBJECT_INPUTS)
            }
        )

    @property
    def key(self) -> str:
        """Digest of all of it."""
        return _digest({**self.files, **self.tools})


def standin_dir() -> Path:
    """Folder of the stand-in's own text."""
    return boards_dir() / "standin"


def router_bridge_dir() -> Path:
    """The stand-in of the library that ``Serial`` of the board is a part of."""
    return standin_dir() / "libraries" / "Arduino_RouterBridge"


def standin_platform(board: Board, core: CoreVersion) -> Platform:
    """The platform of one core version; raises :class:`UsageError` for a board that has none."""
    emulation, linux_side = board.emulation, board.linux_side
    if emulation is None or linux_side is None or core.size_recipe not in RECIPES:
        raise UsageError(
            f"board {board.name!r} has no stand-in for core version {core.version!r}",
            remedy=f"give [emulation], [linux_side] and one of {', '.join(RECIPES)} as size_recipe"
            f" in {board.path}",
        )
    source = standin_dir() / "zephyr"
    files = {
        "platform.txt": _platform_txt(source, core),
        "boards.txt": boards_txt(board, core, emulation).encode(),
        "cores/arduino/Arduino.h": (source / "core" / "Arduino.h").read_bytes(),
        f"firmwares/zephyr-{emulation.variant}.elf": (source / "loader.txt").read_bytes(),
        f"firmwares/zephyr-{emulation.variant}.config": b"# the stand-in has no kernel\n",
    }
    if core.size_recipe in CEILINGS_IN_LOCAL:
        files["boards.local.txt"] = ceilings_txt(board, core).encode()
    own = platform_dir() / "hil" / "virtual"
    for each in tree_files(own / "cores" / "hil"):
        # The bench's platform links with its own script; the stand-in carves RAM in another way.
        if each.path.suffix != ".ld":
            files[f"cores/{REAL_CORE}/hil/{each.name}"] = each.path.read_bytes()
    variant = f"variants/{emulation.variant}"
    for each in tree_files(source / "variant"):
        files[f"{variant}/{each.name}"] = _filled(each.path.read_text(), core, linux_side)
    machine = own / "variants" / MACHINE_VARIANTS[emulation.machine] / "hil_machine.h"
    files[f"{variant}/hil_machine.h"] = machine.read_bytes()
    files[f"{variant}/machine_flags.txt"] = " ".join(emulation.cpu_flags).encode() + b"\n"
    tools = {
        f"{name}/{version}/{name}": (standin_dir() / "tools" / name).read_bytes()
        for name, version in TOOL_VERSIONS.items()
        if (standin_dir() / "tools" / name).is_file()
    }
    return Platform(files, tools)


def boards_txt(board: Board, core: CoreVersion, emulation: Emulation) -> str:
    """``boards.txt``: keys, menus and their defaults as the real one's, 2026."""
    values = {
        "name": board.title,
        "build.core": REAL_CORE,
        "build.board": "UNO_Q",
        "build.variant": emulation.variant,
        "build.mcu": board.core,
        "build.icount_shift": str(emulation.icount_shift),
        "build.artifact": "zephyr_unoq",
        "build.subarch": "zephyr",
        "menu.link_mode.dynamic": "Dynamic",
        "menu.link_mode.static": "Static",
        "menu.link_mode.static.build.link_mode": "static",
        "menu.link_mode.static.upload.extension": "bin-zsk.bin",
        "menu.wait_linux_boot.yes": "Wait for Linux",
        "menu.wait_linux_boot.no": "Immediate",
        "menu.wait_linux_boot.no.build.boot_mode": "immediate",
        "menu.wait_linux_boot.app": "Wait for App",
        "menu.wait_linux_boot.app.build.boot_mode": "app",
        "openocd_cfg": "flash_sketch.cfg",
        "upload_port.0.vid": board.usb.vid,
        "upload_port.0.pid": board.usb.pid,
        "upload.tool": board.upload_method,
        "upload.tool.default": board.upload_method,
        "upload.protocol": "",
        "upload.transport": "",
        "upload.use_1200bps_touch": "false",
        "upload.wait_for_upload_port": "false",
        "upload.native_usb": "true",
        "bootloader.tool": board.upload_method,
        "bootloader.tool.default": board.upload_method,
        "bootloader.file": "zephyr-{build.variant}.elf",
    }
    name = _board_id(board)
    text = "# Generated from boards/*.toml by the bench.\n\n"
    text += "menu.link_mode=Link mode\nmenu.wait_linux_boot=Startup mode\n\n"
    text += "\n".join(f"{name}.{key}={value}" for key, value in values.items()) + "\n"
    if core.size_recipe not in CEILINGS_IN_LOCAL:
        text += ceilings_txt(board, core)
    return text


def ceilings_txt(board: Board, core: CoreVersion) -> str:
    """What the board has of flash and RAM, which every core version says in its own file."""
    name = _board_id(board)
    return (
        f"{name}.upload.maximum_size={core.flash_bytes}\n"
        f"{name}.upload.maximum_data_size={core.ram_bytes}\n"
    )


def _board_id(board: Board) -> str:
    return board.fqbn.split(":")[2]


def _platform_txt(source: Path, core: CoreVersion) -> bytes:
    common = (source / "platform.txt").read_bytes()
    return common + (source / RECIPES[core.size_recipe]).read_bytes() + _version(core)


def _version(core: CoreVersion) -> bytes:
    return f"\nversion={core.version}\n".encode()


def _recipes_only(platform_txt: bytes) -> bytes:
    """The lines that compile: what sizes, uploads and versions say changes no object."""
    lines = platform_txt.decode().splitlines()
    other = ("#", "recipe.size.", "tools.", "version=")
    return "\n".join(line for line in lines if line and not line.startswith(other)).encode()


def _filled(text: str, core: CoreVersion, linux_side: LinuxSide) -> bytes:
    for name, value in (
        ("FLASH_BYTES", str(core.flash_bytes)),
        ("RAM_BYTES", str(core.ram_bytes)),
        ("HEAP_BYTES", str(core.heap_bytes)),
        ("STACK_BYTES", str(core.stack_bytes)),
        ("SKETCH_ADDRESS", f"0x{linux_side.sketch_address:08x}"),
    ):
        text = text.replace(f"@{name}@", value)
    return text.encode()


def _digest(files: Mapping[str, bytes]) -> str:
    return parts_digest(*(f"{name}\0{bytes_digest(files[name])}" for name in sorted(files)))
