"""The stand-in's platform text for each core version, and the tools that its recipes call."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from harness import process
from harness.arduino.standin import Platform, standin_dir, standin_platform
from harness.boards.board import Board, find_board
from tests.remoteocd_calls import EXPECTED, calls, prepare, upload

TOOLS = standin_dir() / "tools"
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def unoq() -> Board:
    return find_board("unoq")


def platform(unoq: Board, version: str) -> Platform:
    return standin_platform(unoq, unoq.core_version(version))


def text(made: Platform, name: str) -> str:
    return made.files[name].decode()


def lines(made: Platform, name: str) -> list[str]:
    return text(made, name).splitlines()


def test_menus_are_the_real_ones(unoq: Board) -> None:
    found = lines(platform(unoq, "0.90.0"), "boards.txt")
    assert "unoq.menu.link_mode.dynamic=Dynamic" in found
    assert "unoq.menu.link_mode.static.build.link_mode=static" in found
    assert "unoq.menu.link_mode.static.upload.extension=bin-zsk.bin" in found
    assert [line for line in found if "wait_linux_boot" in line] == [
        "menu.wait_linux_boot=Startup mode",
        "unoq.menu.wait_linux_boot.yes=Wait for Linux",
        "unoq.menu.wait_linux_boot.no=Immediate",
        "unoq.menu.wait_linux_boot.no.build.boot_mode=immediate",
        "unoq.menu.wait_linux_boot.app=Wait for App",
        "unoq.menu.wait_linux_boot.app.build.boot_mode=app",
    ]
    # The first option of a menu is its default.
    menu = [line for line in found if line.startswith("unoq.menu.link_mode.")]
    assert menu[0] == "unoq.menu.link_mode.dynamic=Dynamic"


def test_ceilings_lie_where_each_version_has_them(unoq: Board) -> None:
    old, new = platform(unoq, "0.55.2"), platform(unoq, "0.90.0")
    assert "unoq.upload.maximum_data_size=131072" in lines(old, "boards.txt")
    assert "boards.local.txt" not in old.files
    assert "maximum" not in text(new, "boards.txt")
    assert lines(new, "boards.local.txt") == [
        "unoq.upload.maximum_size=786432",
        "unoq.upload.maximum_data_size=262144",
    ]


def test_recipes_of_each_version(unoq: Board) -> None:
    old, new = (text(platform(unoq, each), "platform.txt") for each in ("0.55.2", "0.90.0"))
    assert 'recipe.size.pattern="{compiler.path}{compiler.size.cmd}" -A ' in old
    assert "/zephyr-check-size" not in old
    assert '/zephyr-check-size" {build.link_mode}' in new
    upload = (
        'tools.remoteocd.upload.pattern="{path}/{cmd}" upload'
        ' --adb-path "{runtime.tools.adb.path}/adb" -s "{upload.port.properties.serialNumber}"'
        ' -f "{build.variant.path}/{openocd_cfg}" {upload.verbose} '
    )
    assert f'{upload}"{{upload.artifacts.sketch}}"' in old
    assert f'{upload}"{{upload.artifacts.loader}}" "{{upload.artifacts.sketch}}"' in new
    assert old.endswith("\nversion=0.55.2\n")
    assert new.endswith("\nversion=0.90.0\n")


@pytest.mark.parametrize(("version", "ram"), [("0.55.2", 131072), ("0.90.0", 262144)])
def test_memory_is_carved_as_the_data_says(unoq: Board, version: str, ram: int) -> None:
    made = platform(unoq, version)
    script = text(made, "variants/unoq/memory-static.ld")
    assert "ORIGIN = 0x10000000, LENGTH = 786432" in script
    assert f"ORIGIN = 0x38000000, LENGTH = {ram}" in script
    assert "HEAP_BYTES = 32768;" in script
    assert "STACK_BYTES = 32768;" in script
    config = text(made, "variants/unoq/flash_sketch.cfg")
    assert "flash write_image erase $sketch 0x08100000 bin" in config
    filled = [data for name, data in made.files.items() if name.startswith("variants/")]
    assert filled
    assert not any(b"_BYTES@" in data or b"ADDRESS@" in data for data in filled)


def test_the_core_is_the_benchs_own_and_copied_from_one_place(unoq: Board) -> None:
    made = platform(unoq, "0.90.0")
    core = {name for name in made.files if name.startswith("cores/arduino/hil/")}
    assert "cores/arduino/hil/cortex_m/startup.c" in core
    assert not list(standin_dir().rglob("startup.c"))
    assert text(made, "variants/unoq/machine_flags.txt") == (
        "-mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard\n"
    )


def test_one_compile_of_the_library_serves_every_version(unoq: Board) -> None:
    old, new = platform(unoq, "0.55.2"), platform(unoq, "0.90.0")
    assert old.objects_key == new.objects_key
    assert old.image_key != new.image_key
    header = "cores/arduino/hil/Print.h"
    changed = Platform({**new.files, header: b"// other\n"}, new.tools)
    assert changed.objects_key != new.objects_key
    source = "cores/arduino/hil/Print.cpp"
    changed = Platform({**new.files, source: b"// other\n"}, new.tools)
    assert changed.objects_key == new.objects_key
    assert changed.image_key != new.image_key
    flags = new.files["platform.txt"].replace(b"-Os", b"-O2")
    assert Platform({**new.files, "platform.txt": flags}, new.tools).objects_key != new.objects_key


def test_the_sketch_tool_puts_a_header_before_the_payload(tmp_path: Path) -> None:
    payload = b"\x00\x01payload" * 9
    sketch = tmp_path / "a b.bin"
    sketch.write_bytes(payload)
    done = process.run(
        (str(TOOLS / "zephyr-sketch-tool"), "-prelinked", "-immediate", str(sketch)),
        timeout_s=TIMEOUT_S,
    )
    assert done.ok, done.tail()
    made = (tmp_path / "a b.bin-zsk.bin").read_bytes()
    assert made[:8] == b"HILZSK1\0"
    assert struct.unpack_from("<II", made, 8) == (len(payload), zlib.crc32(payload))
    assert made[16:] == payload


@pytest.mark.parametrize("arguments", [("absent.bin",), (), ("-unknown",), ("a", "b")])
def test_the_sketch_tool_fails_where_it_cannot(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    argv = (str(TOOLS / "zephyr-sketch-tool"), *arguments)
    done = process.run(argv, timeout_s=TIMEOUT_S, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("zephyr-sketch-tool: ")
    assert not list(tmp_path.iterdir())


def elf(*sections: tuple[int, int]) -> bytes:
    """A 32-bit ELF of nothing but section headers, each of these flags and sizes."""
    head = bytearray(b"\x7fELF\x01\x01\x01" + bytes(45))
    struct.pack_into("<I", head, 32, 52)
    struct.pack_into("<HH", head, 46, 40, len(sections))
    return bytes(head) + b"".join(
        struct.pack("<10I", 0, 1, flags, 0, 0, size, 0, 0, 0, 0) for flags, size in sections
    )


WRITE, ALLOC, EXEC = 1, 2, 4
SECTIONS = ((ALLOC | EXEC, 1000), (ALLOC, 200), (ALLOC | WRITE, 30), (0, 7))


@pytest.mark.parametrize(("mode", "data"), [("static", 30), ("dynamic", 1230)])
def test_the_size_tool_counts_what_the_real_one_counts(
    tmp_path: Path, mode: str, data: int
) -> None:
    (tmp_path / "up.bin").write_bytes(bytes(777))
    (tmp_path / "a.elf").write_bytes(elf(*SECTIONS))
    argv = (str(TOOLS / "zephyr-check-size"), mode, "config", "up.bin", "a.elf")
    done = process.run(argv, timeout_s=TIMEOUT_S, cwd=tmp_path)
    assert done.stdout == f".text 777\n.data {data}\n"


def test_the_size_tool_fails_on_what_is_no_elf(tmp_path: Path) -> None:
    (tmp_path / "a.elf").write_bytes(b"no elf at all, but long enough for a header" * 3)
    argv = (str(TOOLS / "zephyr-check-size"), "static", "c", "a.elf", "a.elf")
    done = process.run(argv, timeout_s=TIMEOUT_S, cwd=tmp_path)
    assert done.returncode == 1
    assert "is not a 32-bit little-endian ELF" in done.stderr


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    return prepare(tmp_path)


def test_remoteocd_calls_adb_as_the_real_one(bench: Path) -> None:
    done = upload(bench, TOOLS / "remoteocd")
    assert done.ok, done.tail()
    assert calls(bench) == EXPECTED
    # Only what OpenOCD says is shown.
    assert done.stdout == "adb says so\n"


@pytest.mark.parametrize(
    ("fail", "ends_after", "says"),
    [
        ("mkdir", 1, "Error: makedir error: exit status 3: adb says so"),
        ("loader.elf", 2, "Error: copy files error: exit status 3: adb says so"),
        ("flash.cfg", 4, "Error: copy files error: exit status 3: adb says so"),
        ("/opt/openocd/bin/openocd", 5, "Error: error running OpenOCD: exit status 3"),
    ],
)
def test_remoteocd_stops_at_the_first_failure(
    bench: Path, fail: str, ends_after: int, says: str
) -> None:
    done = upload(bench, TOOLS / "remoteocd", fail=fail)
    assert done.returncode == 1
    assert done.stderr.strip() == says
    assert calls(bench) == EXPECTED[:ends_after]


@pytest.mark.parametrize(
    ("lost", "says"),
    [
        ("loader.elf", 'Error: file "loader.elf" does not exist'),
        ("flash.cfg", 'Error: openocd configuration file "flash.cfg" does not exist'),
        ("adb", "No such file or directory"),
    ],
)
def test_remoteocd_says_what_is_not_there(bench: Path, lost: str, says: str) -> None:
    (bench / lost).unlink()
    done = upload(bench, TOOLS / "remoteocd")
    assert done.returncode == 1
    assert says in done.stderr
    assert calls(bench) == []


def test_tools_are_one_file_of_the_standard_library_each() -> None:
    named = ("remoteocd", "zephyr-sketch-tool", "zephyr-check-size")
    for name in named:
        first = (TOOLS / name).read_text(encoding="utf-8").splitlines()[0]
        assert first == "#!/usr/bin/env -S python3 -I -S -E", name


def test_the_library_says_what_it_stands_for(unoq: Board) -> None:
    properties = standin_dir() / "libraries" / "Arduino_RouterBridge" / "library.properties"
    known = dict(line.split("=", 1) for line in properties.read_text(encoding="utf-8").splitlines())
    (wanted,) = unoq.default_core_version.libraries
    assert (known["name"], known["version"]) == (wanted.name, wanted.least_version)
    assert "tand-in" in json.dumps(known)
