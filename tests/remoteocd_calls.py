"""Calls of remoteocd with an adb that notes what it is asked: the stand-in's, and the real."""

from __future__ import annotations

from pathlib import Path

from harness import process

TIMEOUT_S = 20.0

ADB = """#!/bin/sh
# Notes each of its arguments on a line of its own, and fails where it is told to.
for each in "$@"; do printf '%s\\n' "$each" >> log; done
echo -- >> log
echo "adb says so"
case " $* " in *" $FAIL "*) exit 3;; esac
exit 0
"""

# arduino/remoteocd 7109bed: flash.go (the order), board/adb.go (adb's arguments), board/board.go
# (the quoting of what the board's shell would take apart).
EXPECTED = [
    ["-s", "SN 1", "shell", "mkdir", "-p", "/tmp/remoteocd/"],
    ["-s", "SN 1", "push", "loader.elf", "/tmp/remoteocd/loader.elf"],
    ["-s", "SN 1", "push", "a b.bin-zsk.bin", "/tmp/remoteocd/a b.bin-zsk.bin"],
    ["-s", "SN 1", "push", "flash.cfg", "/tmp/remoteocd/flash.cfg"],
    [
        "-s", "SN 1", "shell", "/opt/openocd/bin/openocd", "-d2", "-s", "/opt/openocd",
        "-s", "/opt/openocd/share/openocd/scripts", "-f", "openocd_gpiod.cfg",
        "-c", '"set filename /tmp/remoteocd/loader.elf"',
        "-c", '"set filename0 /tmp/remoteocd/loader.elf"',
        "-c", '"set filename1 /tmp/remoteocd/a b.bin-zsk.bin"',
        "-f", "/tmp/remoteocd/flash.cfg",
    ],
]  # fmt: skip


def prepare(folder: Path) -> Path:
    """The folder with the files of one upload, and the adb."""
    (folder / "adb").write_text(ADB, encoding="utf-8")
    (folder / "adb").chmod(0o755)
    for name in ("loader.elf", "a b.bin-zsk.bin", "flash.cfg"):
        (folder / name).write_bytes(b"x")
    return folder


def upload(folder: Path, program: Path, *, fail: str = "never") -> process.Completed:
    """What ``program`` did; its adb fails at the call that has ``fail`` among its arguments."""
    argv = (
        str(program), "upload", "--adb-path", str(folder / "adb"), "-s", "SN 1", "-f", "flash.cfg",
        "loader.elf", "a b.bin-zsk.bin",
    )  # fmt: skip
    (folder / "log").unlink(missing_ok=True)
    environment = {"PATH": "/usr/bin:/bin", "FAIL": fail}
    return process.run(argv, timeout_s=TIMEOUT_S, cwd=folder, env=environment)


def calls(folder: Path) -> list[list[str]]:
    """The arguments of each call of adb in the last upload."""
    if not (folder / "log").is_file():
        return []
    text = (folder / "log").read_text(encoding="utf-8")
    return [call.splitlines() for call in text.split("--\n") if call]
