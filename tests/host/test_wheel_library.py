"""The wheel's runtime as an Arduino library: linked with its own flags, loaded, run, and judged."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from harness.boards.board import Lane
from harness.library.provenance import exporter_mismatch, read_properties
from harness.library.resolve import Library, resolve_library
from harness.library.wheel import HOST_MCU, link_flags
from harness.paths import platform_dir
from harness.process import run

SKETCH = r"""
#include <ETModel.h>
#include <cstdio>
extern "C" void et_arduino_log(const char* line) { std::printf("log %s\n", line); }
alignas(16) static unsigned char noise[64] = {1, 2, 3};
alignas(16) static uint8_t pool[1024];
int main() {
  executorch::runtime::runtime_init();
  ETModel model(noise, sizeof(noise), pool, sizeof(pool));
  float values[1] = {0};
  std::printf("before %s\n", model.error());
  if (!model.setInput(0, values, 1)) std::printf("early %s\n", model.error());
  if (!model.run()) std::printf("early %s\n", model.error());
  if (model.output() == nullptr) std::printf("early %s\n", model.error());
  std::printf("argmax %d\n", model.argmax());
  if (!model.begin()) std::printf("begin %s\n", model.error());
  return 0;
}
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The host lane's library without a checkout, in a cache of the test's own."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    found, again = (
        resolve_library(
            executorch=None,
            library=None,
            root_ops=None,
            all_ops=False,
            lane=Lane.HOST,
            progress=lambda line: None,  # noqa: ARG005
        )
        for _ in range(2)
    )
    assert found is not None
    assert found == again
    return found


def test_it_is_an_arduino_library_for_the_host_board(library: Library) -> None:
    properties = read_properties(library.path)
    assert library.name == properties["name"] == "ExecuTorch"
    assert properties["precompiled"] == "true"
    assert properties["ldflags"].index("--no-as-needed") < properties["ldflags"].index("-lexecu")
    assert "+" not in properties["version"]
    assert library.provenance.origin == "wheel"
    assert library.provenance.commit == library.provenance.exporter.git_revision
    assert exporter_mismatch(library.provenance, library.provenance.exporter) is None
    assert (library.path / "src" / HOST_MCU).is_dir()
    # A source of the wheel's would be compiled into every sketch; only ours is wanted.
    sources = [path.name for path in library.path.rglob("*.c*")]
    assert sources == ["runtime_log.cpp"]


def test_the_platform_looks_for_it_where_it_is() -> None:
    boards = platform_dir() / "hil" / "virtual" / "boards.txt"
    if not boards.is_file():
        pytest.skip("boards.txt is not generated yet")
    found = re.search(r"^host\.build\.mcu=(\S+)$", boards.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    assert found[1] == HOST_MCU


def test_a_folder_with_blanks_survives_arduinos_splitting() -> None:
    words = shlex.split(link_flags(Path("/a b/lib")))
    assert words[0] == "-L/a b/lib"
    assert words[words.index("-rpath") + 2] == "/a b/lib"


def test_a_sketch_links_and_sees_the_runtimes_log(library: Library, tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler: install g++")
    (tmp_path / "sketch.cpp").write_text(SKETCH, encoding="utf-8")
    program = tmp_path / "sketch"
    source = library.path / "src"
    done = run(
        (
            compiler,
            "-std=gnu++17",
            "-Wall",
            f"-I{source}",
            str(tmp_path / "sketch.cpp"),
            str(source / "runtime_log.cpp"),
            *shlex.split(read_properties(library.path)["ldflags"]),
            "-o",
            str(program),
        ),
        timeout_s=120,
    )
    assert done.ok, done.stderr
    ran = run((str(program),), timeout_s=20)
    assert ran.ok
    lines = ran.stdout.splitlines()
    assert lines[0] == "before no error"
    assert lines[1:5] == [
        "early setInput before begin() failed (0x0)",
        "early run before begin() failed (0x0)",
        "early output before begin() failed (0x0)",
        "argmax -1",
    ]
    assert re.fullmatch(r"log E \[ET:program\.cpp:\d+\] .*", lines[-2])
    assert lines[-1] == "begin Program::load failed (0x23)"
