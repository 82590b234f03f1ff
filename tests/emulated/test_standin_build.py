"""The stand-in's platform through the real arduino-cli, for each core version."""

from __future__ import annotations

import dataclasses
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import process
from harness.arduino.build import Firmware, LinkLibrary, _nonce_address, compile_sketch
from harness.arduino.cli import ArduinoCli
from harness.arduino.core_home import open_core
from harness.arduino.elf import symbol_address
from harness.arduino.precompiled import link_library
from harness.arduino.sketch import read_sketch
from harness.arduino.standin import standin_dir
from harness.boards.board import Board, CoreVersion, find_board
from harness.errors import DutFailure, ToolError, UsageError
from harness.library.resolve import Library
from harness.machine.config import load_config
from harness.paths import sketches_dir
from tests.emulated.direct import running, write_sketch
from tests.emulated.scripted_router import ScriptedRouter
from tests.own_cache import own_cache as make_own_cache
from tests.real_library import configured_checkout, library_of
from tests.remoteocd_calls import calls, prepare, upload

VERSIONS = ("0.55.2", "0.90.0")
FLASH_BASE, RAM_BASE = 0x10000000, 0x38000000
HEADER_BYTES = 16

LIBRARY_TIMEOUT_S = 1500.0
"""Without a warm cache the library is compiled first: two to four minutes on two cores."""

SAME_CODE_BYTES = 12_000
"""Most by which an example's flash differs from that of the bench's board with the same core: the
library that Serial is part of, another Serial, and what goes through it."""


@pytest.fixture
def unoq() -> Board:
    if shutil.which("arm-none-eabi-g++") is None:
        pytest.skip("arm-none-eabi-g++ is not installed")
    return find_board("unoq")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, for what it breaks; the arduino-cli of the set-up is kept."""
    return make_own_cache(tmp_path, monkeypatch)


def standin(board: Board, version: str) -> tuple[ArduinoCli, CoreVersion]:
    core = board.core_version(version)
    return open_core(board, core, virtual=True), core


def build(board: Board, version: str, sketch: Path, **more: Any) -> Firmware:
    cli, _ = standin(board, version)
    return compile_sketch(cli, board, read_sketch(sketch), None, **more)


@contextmanager
def served(board: Board, firmware: Firmware) -> Iterator[ScriptedRouter]:
    """The sketch running in QEMU, with a router at its UART."""
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed")
    with running(board, firmware.elf) as sketch:
        yield ScriptedRouter(sketch)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sketch_is_built_with_the_core_that_was_asked_for(unoq: Board, version: str) -> None:
    cli, core = standin(unoq, version)
    made = build(unoq, version, sketches_dir() / "echo")
    assert made.standin
    assert made.core_version == version
    assert (made.footprint.flash_max_bytes, made.footprint.ram_max_bytes) == (
        core.flash_bytes,
        core.ram_bytes,
    )
    assert made.alerts == ()
    (library,) = made.libraries
    assert library.name == "Arduino_RouterBridge"
    assert Path(library.install_dir).resolve().name == "Arduino_RouterBridge"
    assert "--fqbn" in made.command
    assert unoq.fqbn in made.command
    # A firmware may come from the cache, where another copy of the bench has put the same one.
    config = Path(made.command[made.command.index("--config-file") + 1])
    assert config.parts[-2:] == cli.config.parts[-2:] == (f"standin-{version}", "arduino-cli.yaml")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_uploaded_carries_a_header_and_the_builds_nonce(unoq: Board, version: str) -> None:
    made = build(unoq, version, sketches_dir() / "echo")
    raw = (made.folder / "echo.ino.bin").read_bytes()
    uploaded = (made.folder / "echo.ino.bin-zsk.bin").read_bytes()
    assert uploaded[:8] == b"HILZSK1\0"
    assert struct.unpack_from("<II", uploaded, 8) == (len(raw), zlib.crc32(raw))
    assert uploaded[HEADER_BYTES:] == raw
    stack, reset = struct.unpack_from("<II", raw)
    assert stack == symbol_address(made.elf, "__hil_stack_end")
    assert reset == symbol_address(made.elf, "hil_reset") or reset - 1 == FLASH_BASE
    assert made.nonce_address is not None
    at = made.nonce_address - FLASH_BASE
    assert raw[at : at + 17] == made.nonce.encode() + b"\0"
    kept = {path.name for path in made.folder.iterdir()}
    assert {"echo.ino.elf", "echo.ino_debug.elf", "echo.ino.bin", "echo.ino.map"} <= kept
    assert made.symbols == made.folder / "echo.ino_debug.elf"


def test_an_image_without_its_nonce_is_refused(unoq: Board, tmp_path: Path) -> None:
    made = build(unoq, "0.90.0", sketches_dir() / "echo")
    stripped = tmp_path / "echo.ino.elf"
    argv = ("arm-none-eabi-strip", str(made.elf), "-o", str(stripped))
    assert process.run(argv, timeout_s=20).ok
    with pytest.raises(ToolError, match="the image of 'echo' has no hil_build_nonce"):
        _nonce_address(stripped, "echo")
    stripped.write_bytes(b"not an ELF")
    with pytest.raises(ToolError, match=r"echo\.ino\.elf is not a readable ELF"):
        _nonce_address(stripped, "echo")


def test_what_abort_and_printf_call_back_is_linked(unoq: Board, tmp_path: Path) -> None:
    text = 'void setup() { if (millis() > 9) abort(); }\nvoid loop() { printf("x"); }\n'
    elf = build(unoq, "0.90.0", write_sketch(tmp_path, "aborts", text)).elf
    assert symbol_address(elf, "_exit") is not None
    # And only where they are called.
    echo = build(unoq, "0.90.0", sketches_dir() / "echo").elf
    assert symbol_address(echo, "abort") is None


def test_versions_differ_in_key_and_nonce_and_share_no_build_path(unoq: Board) -> None:
    old, new = (build(unoq, each, sketches_dir() / "echo") for each in VERSIONS)
    assert old.key != new.key
    assert old.nonce != new.nonce
    assert not set(old.command) & {part for part in new.command if "/build/" in part}


@pytest.mark.parametrize("version", VERSIONS)
def test_heap_and_stack_lie_at_the_top_of_what_the_core_has(unoq: Board, version: str) -> None:
    core = unoq.core_version(version)
    elf = build(unoq, version, sketches_dir() / "echo").elf
    end = RAM_BASE + core.ram_bytes
    assert symbol_address(elf, "__hil_heap_end") == end
    assert symbol_address(elf, "__hil_heap_start") == end - core.heap_bytes
    assert symbol_address(elf, "__hil_stack_end") == end - core.heap_bytes
    assert symbol_address(elf, "__hil_stack_start") == end - core.heap_bytes - core.stack_bytes


ARENA = """
static uint8_t arena[{bytes}];
void setup() {{ Serial.begin(115200); arena[millis() % sizeof(arena)] = 1; }}
void loop() {{ Serial.println(arena[millis() % sizeof(arena)]); }}
"""


def test_globals_that_reach_into_the_reservations_link_and_only_the_end_is_an_error(
    unoq: Board, tmp_path: Path
) -> None:
    # 70 KB on core 0.55.2: into the stack's reservation, as in the report of its users.
    over = write_sketch(tmp_path, "over", ARENA.format(bytes=70 * 1024))
    made = build(unoq, "0.55.2", over)
    globals_end = symbol_address(made.elf, "__hil_globals_end")
    stack = symbol_address(made.elf, "__hil_stack_start")
    assert globals_end is not None
    assert stack is not None
    assert globals_end > stack
    assert symbol_address(build(unoq, "0.90.0", over).elf, "__hil_globals_end") == globals_end
    beyond = write_sketch(tmp_path, "beyond", ARENA.format(bytes=140 * 1024))
    with pytest.raises(DutFailure, match="RAM overflow: 'beyond' does not fit board 'unoq'"):
        build(unoq, "0.55.2", beyond)
    assert build(unoq, "0.90.0", beyond).footprint.ram_bytes > 140 * 1024


TALK = """
void setup() {
  Serial.begin(115200);
  Serial.print("ready ");
  Serial.println(42);
  while (!Serial) {}
}
void loop() {
  if (Serial.available() > 0) {
    const int value = Serial.read();
    if (value == '!') {
      uint8_t bytes[] = {0xff, 0x00, 0x1b};
      Serial.write(bytes, sizeof bytes);
      String version;
      Serial.println(Bridge.getRouterVersion(version) ? version : String("none"));
      int unknown = 7;
      Serial.println(Bridge.call("no/such", 1, "two", true, -40, 70000).result(unknown));
    } else {
      Serial.print(static_cast<char>(value));
    }
  }
}
"""


def test_serial_is_remote_calls_one_for_each_print(unoq: Board, tmp_path: Path) -> None:
    firmware = build(unoq, "0.90.0", write_sketch(tmp_path, "talk", TALK))
    with served(unoq, firmware) as router:
        router.until(b"ready 42\r\n")
        assert router.fragments == [b"ready ", b"42", b"\r\n"]
        assert [name for name, _ in router.calls][:3] == ["$/reset", "mon/connected", "$/version"]
        router.input = b"hello"
        router.until(b"hello")
        # Some of the input is asked for while there is none: an idle sketch waits for the answer.
        assert {tuple(params) for name, params in router.calls if name == "mon/read"} >= {(512,)}
        router.input = b"!"
        router.until(b"\r\n0\r\n")
        assert b"\xff\x00\x1b" in router.fragments
        assert router.printed.endswith(b"0.6.0\r\n0\r\n")
        assert ("no/such", [1, "two", True, -40, 70000]) in router.calls


def test_more_than_the_ring_holds_arrives_whole_and_in_order(unoq: Board, tmp_path: Path) -> None:
    firmware = build(unoq, "0.90.0", write_sketch(tmp_path, "talk", TALK))
    sent = b"".join(b"%04d," % number for number in range(1000))
    with served(unoq, firmware) as router:
        router.until(b"ready 42\r\n")
        router.input = sent
        assert router.until(sent[-10:]).endswith(sent)


def test_answers_to_an_earlier_sketch_and_noise_are_passed_over(
    unoq: Board, tmp_path: Path
) -> None:
    firmware = build(unoq, "0.90.0", write_sketch(tmp_path, "talk", TALK))
    with served(unoq, firmware) as router:
        # An answer nobody waits for, plain text, a notification, and a call to the sketch.
        router.send(b"\x94\x01\xcd\x30\x39\xc0\xc4\x03old" + b"noise" + b"\x93\x02\xa1x\x91\x05")
        router.send(b"\x94\x00\x07\xa4none\x90")
        assert router.until(b"ready 42\r\n") == b"ready 42\r\n"
        assert router.answers == [(7, [1, "the sketch provides no method"], None)]


def test_a_port_that_nobody_is_at_keeps_a_sketch_waiting(unoq: Board, tmp_path: Path) -> None:
    firmware = build(unoq, "0.90.0", write_sketch(tmp_path, "talk", TALK))
    with served(unoq, firmware) as router:
        router._answer = lambda method, params: (
            (None, False) if method == "mon/connected" else router.answer(method, params)
        )
        router.until(b"ready 42\r\n")
        # while (!Serial) is for ever: the connection is asked for by begin() alone.
        assert [name for name, _ in router.calls] == ["$/reset", "mon/connected", "$/version"]


def test_without_the_library_that_serial_is_part_of(unoq: Board, own_cache: Path) -> None:
    cli, _ = standin(unoq, "0.90.0")
    (cli.home / "user" / "libraries" / "Arduino_RouterBridge").unlink()
    with pytest.raises(ToolError, match=r"^Arduino_RouterBridge is missing") as got:
        compile_sketch(cli, unoq, read_sketch(sketches_dir() / "echo"), None)
    assert "hil core install" in got.value.remedy
    assert own_cache.is_dir()


def test_a_managed_core_that_shadows_the_expected_one(unoq: Board, own_cache: Path) -> None:
    cli, _ = standin(unoq, "0.90.0")
    assert cli.core is not None
    expected = cli.core.platform_path
    other = expected.with_name("0.99.0")
    shutil.copytree(expected, other)
    # Put there after the folder was looked at: what arduino-cli reports says so.
    with pytest.raises(ToolError) as got:
        compile_sketch(cli, unoq, read_sketch(sketches_dir() / "echo"), None)
    for each in ("0.99.0", str(other), "0.90.0", str(expected)):
        assert each in got.value.message
    assert own_cache.is_dir()


def test_a_profile_is_refused_before_anything_is_compiled(unoq: Board, tmp_path: Path) -> None:
    sketch = write_sketch(tmp_path, "profiled", ARENA.format(bytes=4))
    (sketch / "sketch.yaml").write_text("default_profile: mine\n", encoding="utf-8")
    said: list[str] = []
    with pytest.raises(UsageError, match="'profiled' has default_profile 'mine'"):
        build(unoq, "0.90.0", sketch, progress=said.append)
    assert said == []


def dynamic(board: Board) -> Board:
    return dataclasses.replace(board, fqbn="arduino:zephyr:unoq")


def test_a_dynamic_link_is_refused_or_forced(unoq: Board) -> None:
    said: list[str] = []
    with pytest.raises(UsageError, match="leaves link_mode at its default, dynamic"):
        build(dynamic(unoq), "0.90.0", sketches_dir() / "echo", progress=said.append)
    assert said == []
    forced = build(dynamic(unoq), "0.90.0", sketches_dir() / "echo", allow_dynamic=True)
    static = build(unoq, "0.90.0", sketches_dir() / "echo")
    assert (forced.folder / "echo.ino.elf-zsk.bin").is_file()
    # Relocatable, with what nothing uses still in it.
    assert forced.footprint.flash_bytes > 2 * static.footprint.flash_bytes


def test_the_real_remoteocd_makes_the_same_calls(tmp_path: Path) -> None:
    program = load_config().remoteocd
    if program is None:
        pytest.skip("no real remoteocd is configured (key remoteocd)")
    prepare(tmp_path)
    for fail in ("never", "mkdir", "loader.elf", "flash.cfg", "/opt/openocd/bin/openocd"):
        seen = []
        for each in (program, standin_dir() / "tools" / "remoteocd"):
            done = upload(tmp_path, each, fail=fail)
            seen.append((done.returncode, done.stdout, done.stderr.strip(), calls(tmp_path)))
        assert seen[0] == seen[1], fail


@pytest.fixture(scope="module")
def library() -> Library:
    return library_of(configured_checkout())


@pytest.fixture
def linked(unoq: Board, library: Library) -> LinkLibrary:
    cli, _ = standin(unoq, VERSIONS[-1])
    return link_library(cli, unoq, library)


@pytest.mark.timeout(LIBRARY_TIMEOUT_S)
def test_one_compile_of_the_library_serves_both_versions(
    unoq: Board, library: Library, linked: LinkLibrary
) -> None:
    said: list[str] = []
    cli, _ = standin(unoq, VERSIONS[0])
    assert link_library(cli, unoq, library, progress=said.append) == linked
    assert said == []
    assert linked.archive is not None
    assert linked.archive.is_file()
    assert not list(linked.path.rglob("*.cpp"))


@pytest.mark.timeout(LIBRARY_TIMEOUT_S)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_example_fits_and_finds_its_kernels(
    unoq: Board, library: Library, linked: LinkLibrary, version: str
) -> None:
    cli, _ = standin(unoq, version)
    example = read_sketch(library.path / "examples" / "AddModel")
    made = compile_sketch(cli, unoq, example, linked)
    same_core = find_board("m33").default_core_version.budget("AddModel")
    assert same_core is not None
    assert abs(made.footprint.flash_bytes - same_core.measured_flash_bytes) < SAME_CODE_BYTES
    with served(unoq, made) as router:
        assert b"[1,2,3] + 1 = [2.00, 3.00, 4.00]" in router.until(b"4.00]")


@pytest.mark.timeout(LIBRARY_TIMEOUT_S)
def test_a_dynamic_build_with_the_library_overflows_and_is_explained(
    unoq: Board, library: Library, linked: LinkLibrary
) -> None:
    board = dynamic(unoq)
    cli, _ = standin(board, VERSIONS[-1])
    example = read_sketch(library.path / "examples" / "AddModel")
    with pytest.raises(DutFailure, match="is linked dynamically") as got:
        compile_sketch(cli, board, example, linked, allow_dynamic=True)
    assert "507,876 B linked statically and 787,508 B dynamically" in got.value.message
    assert any("Sketch too big" in line for line in got.value.evidence)
