"""The set-up on machines made of small real programs: a private PATH, fakes that keep a diary."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import process

ROOT = Path(__file__).resolve().parents[2]
ORDINARY = (
    *("sh", "env", "cat", "cksum", "cp", "chmod", "dirname", "mkdir", "rm", "tail", "head"),
    *("sed", "awk", "tr", "sleep", "uname", "id", "touch", "true"),
)
"""Programs of a fresh machine; everything else is a fake or missing."""

INPUTS = (
    *("tools/setup", "tools/uv-requirements.txt", "tools/build-constraints.txt"),
    *("requirements.txt", "pyproject.toml"),
)
APT = """
case "$*" in
  *update*) ;;
  *install*) for package; do
      case $package in
        gcc-arm-none-eabi) put arm-none-eabi-g++ ;;
        qemu-system-arm|ccache|arduino-ctags|g++|git) put "$package" ;;
        python3) put python3 ;;
        *picolibc*) touch "$WORLD/picolibc.specs" ;;
      esac
    done ;;
esac
"""
CROSS = """
if [ -f "$WORLD/picolibc.specs" ]; then
    mkdir -p "$WORLD/pico/lib"; : >"$WORLD/pico/lib/libstdc++.a"
    printf '%s\\n' "-isystem %{-p=*:%*/include/; :$WORLD/pico/include}" >"$WORLD/picolibc.specs"
    echo "$WORLD/picolibc.specs"
else
    echo picolibc.specs
fi
"""
PYTHON = """
case "$*" in
  "-m venv"*)
    mkdir -p .venv/bin
    cp "$WORLD/store/venv-python" .venv/bin/python ;;
esac
"""
VENV_PYTHON = """
case "$*" in
  "-c "*) exit 0 ;;
  *"pip "*install*) cp "$WORLD/store/uv" .venv/bin/uv ;;
esac
"""
UV = """
case "$*" in
  *--editable*) : >.venv/bin/hil; chmod +x .venv/bin/hil ;;
esac
"""


@dataclass
class Machine:
    """A fresh machine with a checkout of the project, whose programs write what they are told."""

    world: Path
    project: Path

    @property
    def bin(self) -> Path:
        return self.world / "bin"

    def fake(self, name: str, script: str = "", *, stored: bool = False) -> None:
        """A program that notes its arguments, fails when told to, then does ``script``."""
        folder = self.world / "store" if stored else self.bin
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = -c ] || [ "$1" = -print-file-name=picolibc.specs ] ||'
            f' echo "{name} $*" >>"$WORLD/diary"\n'
            'put() { cp "$WORLD/store/$1" "$WORLD/bin/$1"; }\n'
            f'if [ -f "$WORLD/fail/{name}" ] && [ "$1" != -c ]; then\n'
            f'    cat "$WORLD/fail/{name}" >&2; exit 7\nfi\n{script}',
            encoding="utf-8",
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def break_(self, name: str, message: str) -> None:
        folder = self.world / "fail"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(message + "\n", encoding="utf-8")

    def mend(self, name: str) -> None:
        (self.world / "fail" / name).unlink()

    def diary(self) -> list[str]:
        """What was run since the last look, one command a line."""
        path = self.world / "diary"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def environment(self, **more: str) -> dict[str, str]:
        """What the set-up is started with."""
        return {
            "PATH": str(self.bin),
            "WORLD": str(self.world),
            "HIL_SETUP_COMMAND": "make demo",
            **more,
        }

    @property
    def command(self) -> tuple[str, ...]:
        return (str(self.project / "tools" / "setup"),)

    def set_up(self, **more: str) -> process.Completed:
        """Run it from a folder that is not the checkout."""
        return process.run(self.command, timeout_s=60, env=self.environment(**more), cwd=self.world)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A fresh machine: root, apt-get, and nothing that the bench needs."""
    project = tmp_path / "project"
    for name in INPUTS:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, project / name)
    world = tmp_path / "world"
    (world / "bin").mkdir(parents=True)
    for name in ORDINARY:
        found = shutil.which(name)
        assert found is not None, name
        (world / "bin" / name).symlink_to(os.path.realpath(found))
    made = Machine(world, project)
    made.fake("id", "echo 0")
    made.fake("uname", "echo Linux")
    made.fake("apt-get", APT)
    for name in ("qemu-system-arm", "ccache", "arduino-ctags", "g++", "git"):
        made.fake(name, stored=True)
    made.fake("arm-none-eabi-g++", CROSS, stored=True)
    made.fake("python3", PYTHON, stored=True)
    made.fake("venv-python", VENV_PYTHON, stored=True)
    made.fake("uv", UV, stored=True)
    return made


def steps(diary: list[str]) -> list[str]:
    """The diary with each line cut down to the program and what it was for."""
    words = {
        "update": "apt-get update",
        " install -y": "apt-get install",
        "-m venv": "venv",
        "uv-requirements": "uv",
        "pip sync": "packages",
        "--torch-backend": "torch",
        "--editable": "project",
        "build_arduino_cli": "arduino-cli",
    }
    return [short for line in diary for word, short in words.items() if word in line]


EVERY_STEP = ["apt-get update", "apt-get install", "venv", "uv", "packages", "project"]


def test_a_fresh_machine_is_set_up_in_order(machine: Machine) -> None:
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    diary = machine.diary()
    assert steps(diary) == [*EVERY_STEP, "arduino-cli"]
    install = next(line for line in diary if " install " in line)
    wanted = "gcc-arm-none-eabi picolibc-arm-none-eabi libstdc++-arm-none-eabi-picolibc"
    assert wanted in install
    for package in ("qemu-system-arm", "ccache", "arduino-ctags", "g++", "git", "python3-venv"):
        assert package in install.split()
    assert "--no-install-recommends" in install


def test_packages_are_installed_with_their_hashes(machine: Machine) -> None:
    machine.set_up()
    diary = machine.diary()
    sync = next(line for line in diary if "pip sync" in line)
    assert "--require-hashes --build-constraints tools/build-constraints.txt" in sync
    assert sync.endswith(" requirements.txt")
    uv = next(line for line in diary if "uv-requirements" in line)
    assert "--require-hashes --only-binary :all:" in uv


def test_a_second_run_does_nothing_and_says_nothing(machine: Machine) -> None:
    machine.set_up()
    machine.diary()
    done = machine.set_up()
    assert done.returncode == 0
    assert (done.stdout, done.stderr) == ("", "")
    # Whether arduino-cli is still there is for that step to say.
    assert steps(machine.diary()) == ["arduino-cli"]
    assert done.duration_s < 2


@pytest.mark.parametrize(
    ("program", "step", "done_before", "after"),
    [
        ("apt-get", "1 of 5 (system packages)", [], EVERY_STEP),
        ("python3", "2 of 5 (virtual environment)", EVERY_STEP[:2], EVERY_STEP[2:]),
        ("venv-python", "2 of 5 (virtual environment)", EVERY_STEP[:3], EVERY_STEP[3:]),
        ("uv", "3 of 5 (Python packages)", EVERY_STEP[:4], EVERY_STEP[4:]),
    ],
)
def test_a_failed_step_says_which_why_and_what_to_do_and_is_taken_up_again(
    machine: Machine, program: str, step: str, done_before: list[str], after: list[str]
) -> None:
    machine.break_(program, f"{program}: no space left on device")
    done = machine.set_up()
    assert done.returncode == 1
    assert f"set-up failed in step {step}" in done.stderr
    assert f"{program}: no space left on device" in done.stderr
    assert "exited with 7" in done.stderr
    assert "then run 'make demo' again" in done.stderr
    assert steps(machine.diary())[: len(done_before)] == done_before

    machine.mend(program)
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert steps(machine.diary()) == [*after, "arduino-cli"]


def test_a_failed_arduino_cli_is_a_failed_set_up(machine: Machine) -> None:
    machine.fake(
        "venv-python",
        VENV_PYTHON + 'case "$*" in *build_arduino_cli*) echo "  why: no Go" >&2; exit 1 ;; esac',
        stored=True,
    )
    done = machine.set_up()
    assert done.returncode == 1
    assert "why: no Go" in done.stderr
    assert "set-up failed in step 5 of 5 (arduino-cli)" in done.stderr


def test_a_changed_lock_is_installed_again(machine: Machine) -> None:
    machine.set_up()
    machine.diary()
    lock = machine.project / "requirements.txt"
    lock.write_text(lock.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert machine.set_up().returncode == 0
    assert steps(machine.diary()) == ["packages", "project", "arduino-cli"]


def test_a_lost_program_is_installed_again(machine: Machine) -> None:
    machine.set_up()
    machine.diary()
    (machine.bin / "ccache").unlink()
    assert machine.set_up().returncode == 0
    diary = machine.diary()
    assert steps(diary) == ["apt-get update", "apt-get install", "arduino-cli"]
    install = next(line for line in diary if " install " in line)
    assert install.endswith("--no-install-recommends ccache")


def test_a_moved_checkout_gets_a_new_environment(machine: Machine, tmp_path: Path) -> None:
    machine.set_up()
    machine.diary()
    machine.project.rename(tmp_path / "elsewhere")
    machine.project = tmp_path / "elsewhere"
    assert machine.set_up().returncode == 0
    assert "venv" in steps(machine.diary())


def test_packages_that_apt_did_not_bring_are_named(machine: Machine) -> None:
    machine.fake("apt-get", "exit 0")
    done = machine.set_up()
    assert done.returncode == 1
    assert "apt-get succeeded, but these are still missing: gcc-arm-none-eabi" in done.stderr


def test_without_root_it_prints_the_command_and_stops(machine: Machine) -> None:
    machine.fake("id", "echo 1000")
    machine.fake("sudo", "echo a password is required >&2; exit 1")
    done = machine.set_up()
    assert done.returncode == 1
    assert "sudo apt-get update && sudo apt-get install -y gcc-arm-none-eabi" in done.stderr
    assert "sudo is absent or wants a password" in done.stderr
    assert steps(machine.diary()) == []


def test_sudo_without_a_password_is_used(machine: Machine) -> None:
    machine.fake("id", "echo 1000")
    machine.fake("sudo", 'shift; exec "$@"')
    done = machine.set_up()
    assert done.returncode == 0, done.stderr
    assert any(line.startswith("sudo -n apt-get") for line in machine.diary())


def test_macos_prints_its_own_packages_and_stops(machine: Machine) -> None:
    machine.fake("uname", "echo Darwin")
    done = machine.set_up()
    assert done.returncode == 1
    assert "brew install qemu ccache git python@3.12" in done.stderr
    assert "no package of arduino-ctags" in done.stderr
    assert steps(machine.diary()) == []


def test_another_linux_prints_what_is_missing_and_stops(machine: Machine) -> None:
    (machine.bin / "apt-get").unlink()
    done = machine.set_up()
    assert done.returncode == 1
    assert "this system has no apt-get" in done.stderr
    assert "install what Debian calls gcc-arm-none-eabi picolibc-arm-none-eabi" in done.stderr


def test_an_unfit_interpreter_is_named(machine: Machine) -> None:
    done = machine.set_up(PYTHON="python3.9")
    assert done.returncode == 1
    assert "set-up failed in step 2 of 5 (virtual environment)" in done.stderr
    assert "no Python 3.11 to 3.14 with its venv module (tried python3.9)" in done.stderr


def test_torch_for_another_backend_leaves_cuda_out(machine: Machine) -> None:
    done = machine.set_up(HIL_TORCH_BACKEND="cpu")
    assert done.returncode == 0, done.stderr
    diary = machine.diary()
    assert steps(diary) == [*EVERY_STEP[:5], "torch", "project", "arduino-cli"]
    lock = (machine.project / "build/setup/requirements-without-torch.txt").read_text("utf-8")
    whole = (ROOT / "requirements.txt").read_text("utf-8")
    assert "\nnvidia-cublas==" in whole
    names = {line.split("==")[0] for line in lock.splitlines() if line[:1].isalnum()}
    assert {"executorch", "torchao", "numpy", "pytest"} <= names
    assert not {name for name in names if name.startswith(("nvidia-", "cuda-"))}
    assert not names & {"torch", "triton"}
    torch = next(line for line in diary if "--torch-backend" in line)
    assert "--no-deps --torch-backend cpu torch==" in torch
    assert "whose hashes are not in the lock" in done.stderr


def test_set_up_from_another_folder_and_with_spaces(machine: Machine, tmp_path: Path) -> None:
    machine.project.rename(tmp_path / "a folder")
    machine.project = tmp_path / "a folder"
    done = machine.set_up()
    assert done.returncode == 0, done.stderr


def test_an_interrupted_set_up_ends_and_is_taken_up_again(machine: Machine) -> None:
    ready = machine.world / "ready"
    os.mkfifo(ready)
    machine.fake("apt-get", 'echo >"$WORLD/ready"; exec sleep 60')
    child = process.spawn(machine.command, env=machine.environment(), cwd=machine.world)
    try:
        # Opening it waits for the other end, so apt-get is running then.
        assert ready.read_text("utf-8") == "\n"
        process.signal_session(child.pid, signal.SIGINT)
        assert child.wait(timeout=20) == 130
    finally:
        process.end(child)
    machine.fake("apt-get", APT)
    assert machine.set_up().returncode == 0


@pytest.mark.skipif(shutil.which("flock") is None, reason="this system has no flock")
def test_two_set_ups_of_one_checkout_wait_for_each_other(machine: Machine) -> None:
    (machine.bin / "flock").symlink_to(os.path.realpath(str(shutil.which("flock"))))
    children = [
        process.spawn(machine.command, env=machine.environment(), cwd=machine.world)
        for _ in range(2)
    ]
    try:
        assert [child.wait(timeout=20) for child in children] == [0, 0]
    finally:
        for child in children:
            process.end(child)
    assert steps(machine.diary()).count("venv") == 1
