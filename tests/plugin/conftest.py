"""A repository that is not ours, with a test file and two sketches."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.boards.board import Lane
from harness.machine.doctor import why_not
from tests.child_run import PYTEST, ChildBench, Outcome

GREETER = r"""
void setup() {
  Serial.begin(115200);
  Serial.println("hello from a stranger's sketch");
  Serial.print("\x1b[31mred \x1b]0;title\x07 \x9b" "31m ");
  Serial.write(0xff);
  Serial.println(" end of it");
}
void loop() { delay(1); }
"""
CRASH = r"""
void setup() {
  Serial.begin(115200);
  Serial.println("about to crash");
  Serial.flush();
}
void loop() { Serial.println(*reinterpret_cast<volatile int*>(16)); }
"""
LONG_LINE = r"""
void setup() {
  Serial.begin(115200);
  for (int i = 0; i < 10 * 1024; ++i) {
    for (int part = 0; part < 16; ++part) {
      Serial.print("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqr");
    }
  }
  Serial.println("\nend of the line");
}
void loop() { delay(1); }
"""


SKETCHES = {"greeter": GREETER, "long_line": LONG_LINE, "crash": CRASH}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with no configuration and no conftest."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copyfile(Path(__file__).with_name("sample.py"), folder / "test_sample.py")
    for name, text in SKETCHES.items():
        (folder / name).mkdir()
        (folder / name / f"{name}.ino").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def run_folder() -> Iterator[Path]:
    """A short runtime folder, since sockets lie in it."""
    with TemporaryDirectory(prefix="hil") as folder:
        yield Path(folder)


@pytest.fixture
def child(run_folder: Path, tmp_path: Path) -> ChildBench:
    """Runs in processes of their own, in which nothing of this repository is on the path."""
    return ChildBench(run_folder, tmp_path / "out", {"PYTHONPATH": ""})


@pytest.fixture(scope="session")
def sample(project: Path, run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The whole of the sample, once, on the host board."""
    if reason := why_not(Lane.HOST):
        pytest.skip(reason)
    out = tmp_path_factory.mktemp("sample")
    words = ("--hil-board=host", f"--hil-out={out}", f"--alluredir={out / 'allure'}", "-rs", "-q")
    return ChildBench(run_folder, out, {"PYTHONPATH": ""}).run(
        (*PYTEST, *words, f"--junitxml={out / 'junit.xml'}", "-p", "no:cacheprovider"), cwd=project
    )
