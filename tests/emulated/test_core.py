"""The Arduino core on every board of ours: built by arduino-cli, run by QEMU or natively."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from harness.arduino.cli import failure_text
from harness.boards.board import Board, find_board
from harness.clock import pause
from harness.paths import sketches_dir
from tests.emulated.core_values import CORE_VALUES
from tests.emulated.direct import build, compile_sketch, need, running, write_sketch

EMULATED = ("m3", "m4f", "m7", "m33", "m55")
EVERY = ("host", *EMULATED)


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Board:
    """A board whose tools are installed here."""
    found = find_board(str(request.param))
    need(found)
    return found


@pytest.mark.parametrize("board", EVERY, indirect=True)
def test_conformance(board: Board, tmp_path: Path) -> None:
    elf = build(board, sketches_dir() / "conformance", tmp_path / "build")
    line = bytes(33 + 7 * index % 90 for index in range(5000))
    checksum = 0
    for byte in line:
        checksum = (checksum * 31 + byte) & 0xFFFFFFFF
    with running(board, elf) as sketch:
        sketch.until(b"done=")
        # Far more than any buffer holds while the sketch looks away: nothing may be lost.
        text = sketch.until(b"received=5000:%d\r\n" % checksum, send=line + b"\n")
    lines = text.decode("ascii").split("\r\n")
    printed = dict(each.split("=", 1) for each in lines if "=" in each)
    del printed["received"]
    assert printed.pop("done") == str(len(printed))
    assert printed == CORE_VALUES


@pytest.mark.parametrize("board", EVERY, indirect=True)
def test_echo(board: Board, tmp_path: Path) -> None:
    elf = build(board, sketches_dir() / "echo", tmp_path / "build")
    with running(board, elf) as sketch:
        sketch.until(b"echo ready\r\n")
        sketch.until(b"echo: one\r\necho: \r\necho: two\r\n", send=b"one\r\n\ntwo\n")


@pytest.mark.skipif(platform.system() != "Linux", reason="processor time is read from /proc")
@pytest.mark.parametrize("board", ["host", "m33"], indirect=True)
def test_a_sketch_that_only_waits_for_input_costs_nothing(board: Board, tmp_path: Path) -> None:
    elf = build(board, sketches_dir() / "echo", tmp_path / "build")
    with running(board, elf) as sketch:
        sketch.until(b"echo: x\r\n", send=b"x\n")
        pause(0.3)
        before = sketch.cpu_ticks()
        pause(0.5)
        assert sketch.cpu_ticks() - before <= 2
        # And it still hears.
        sketch.until(b"echo: y\r\n", send=b"y\n")


MUTE = """
void setup() {}
void loop() {
  millis();
  if (Serial.available()) Serial.write(Serial.read());
}
"""


@pytest.mark.parametrize("board", ["m3", "m33", "m55"], indirect=True)
def test_a_sketch_that_never_prints_hears(board: Board, tmp_path: Path) -> None:
    elf = build(board, write_sketch(tmp_path, "mute", MUTE), tmp_path / "build")
    with running(board, elf) as sketch:
        pause(0.3)
        sketch.until(b"anybody", send=b"anybody")


COUNT = """
void setup() {
  const int64_t before = hil_instruction_count();
  volatile float sum = 0;
  for (int i = 1; i < 20000; ++i) sum = sum + 1.0f / i;
  Serial.print("count=");
  Serial.println(hil_instruction_count() - before - hil_instruction_overhead());
}
void loop() { delay(1000); }
"""


@pytest.mark.parametrize("board", EMULATED, indirect=True)
def test_an_instruction_count_repeats_exactly(board: Board, tmp_path: Path) -> None:
    elf = build(board, write_sketch(tmp_path, "count", COUNT), tmp_path / "build")
    counts = set()
    for _ in range(3):
        with running(board, elf) as sketch:
            counts.add(sketch.until(b"\r\n"))
    assert len(counts) == 1
    (count,) = counts
    assert int(count.removeprefix(b"count=")) > 100_000


FAULTS = {
    "null_write": "*(volatile int*)nowhere = 1;",
    "no_memory": "nowhere = (char*)0xf0000000; *(volatile int*)nowhere;",
    "stack": "down(1);",
    "abort": "abort();",
    "new": "nowhere = new char[64 << 20];",
    "trap": "__builtin_trap();",
}
# All on one core; on one of each other architecture those that guard.c turns into faults.
FAULT_CASES = [
    *(("m33", fault) for fault in FAULTS),
    *((board, fault) for board in ("m3", "m55") for fault in ("null_write", "stack")),
]

FAULT = """
static char* volatile nowhere;
static int volatile depth;
__attribute__((noinline)) static int down(int level) {
  volatile char frame[200];
  frame[level % 200] = 1;
  ++depth;
  return level < 0 ? 0 : down(level + 1) + frame[0];
}
void setup() {
  Serial.println("before");
  Serial.println(depth + (nowhere == nullptr ? 0 : down(-1)));
  FATAL
  Serial.println("after");
}
void loop() {}
"""


@pytest.mark.skipif(platform.system() != "Linux", reason="processor time is read from /proc")
@pytest.mark.parametrize(("board", "fault"), FAULT_CASES, indirect=["board"])
def test_a_fatal_error_is_silent_and_idle(board: Board, fault: str, tmp_path: Path) -> None:
    sketch_path = write_sketch(tmp_path, "fault", FAULT.replace("FATAL", FAULTS[fault]))
    elf = build(board, sketch_path, tmp_path / "build")
    with running(board, elf) as sketch:
        sketch.until(b"before\r\n0\r\n")
        pause(0.3)
        before = sketch.cpu_ticks()
        pause(0.3)
        assert sketch.child.poll() is None
        assert sketch.cpu_ticks() - before <= 2
        assert sketch.output == b"before\r\n0\r\n"


TOO_BIG = """
%s uint8_t block[%d] = {1};
volatile int place;
void setup() { Serial.println(block[place]); }
void loop() {}
"""


@pytest.mark.parametrize(("kind", "region"), [("extern const", "FLASH"), ("", "RAM")])
@pytest.mark.parametrize("board", ["m33"], indirect=True)
def test_an_overflow_is_the_linkers_own_message(
    board: Board, kind: str, region: str, tmp_path: Path
) -> None:
    text = TOO_BIG % (kind, 5 << 20)
    done = compile_sketch(board, write_sketch(tmp_path, "big", text), tmp_path / "build")
    assert not done.ok
    assert f"region `{region}' overflowed by " in failure_text(done)


REGISTRY = """
#include "registry.h"
void setup() { Serial.print("registered="); Serial.println(registered); }
void loop() { delay(1000); }
"""


@pytest.mark.parametrize("dot_a_linkage", ["true", "false"])
@pytest.mark.parametrize("board", ["host", "m33"], indirect=True)
def test_a_library_that_registers_itself_is_linked_whole(
    board: Board, dot_a_linkage: str, tmp_path: Path
) -> None:
    source = tmp_path / "Registry" / "src"
    source.mkdir(parents=True)
    properties = (
        "name=Registry\nversion=1.0.0\nauthor=x\nmaintainer=x\nsentence=x\nparagraph=x\n"
        f"category=Other\nurl=x\narchitectures=zephyr\ndot_a_linkage={dot_a_linkage}\n"
    )
    (source.parent / "library.properties").write_text(properties, encoding="utf-8")
    (source / "registry.h").write_text("extern int registered;\n", encoding="utf-8")
    (source / "registry.cpp").write_text("int registered;\n", encoding="utf-8")
    (source / "kernel.cpp").write_text(
        '#include "registry.h"\nstatic const bool done = (++registered, true);\n', encoding="utf-8"
    )
    sketch = write_sketch(tmp_path, "registry", REGISTRY)
    elf = build(board, sketch, tmp_path / "build", library=source.parent)
    with running(board, elf) as running_sketch:
        assert running_sketch.until(b"\r\n") == b"registered=1\r\n"


COUNTS = """
#include <hil_board.h>
static volatile uint32_t sink;
__attribute__((noinline)) static void work() {
  for (uint32_t i = 0; i < 1000; ++i) sink = sink * 3 + i;
}
void setup() { Serial.println("ready"); }
void loop() {
  hil_wait_for_input();
  Serial.read();
  const int64_t overhead = hil_instruction_overhead();
  const int64_t before = hil_instruction_count();
  work();
  const int64_t after = hil_instruction_count();
  static int line;
  Serial.print("n=");
  Serial.print(static_cast<long>(after - before - overhead));
  Serial.print(" #");
  Serial.println(++line);
}
"""


@pytest.mark.parametrize("board", ["m3", "m33", "m55"], indirect=True)
def test_a_count_is_the_same_whenever_input_came(board: Board, tmp_path: Path) -> None:
    # Input ends a sleep at any moment between two instructions: on m55, 18 of 300 counts were
    # one off before counting began anew after each sleep.
    elf = build(board, write_sketch(tmp_path, "counts", COUNTS), tmp_path / "build")
    with running(board, elf) as sketch:
        sketch.until(b"ready\r\n")
        for line in range(1, 151):
            printed = sketch.until(b"#%d\r\n" % line, send=b"x")
    counts = re.findall(rb"n=(\d+)", printed)
    assert len(counts) == 150
    assert len(set(counts)) == 1
