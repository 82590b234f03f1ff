from pathlib import Path

from harness.boards.board import Emulation
from harness.emulator import qemu

AN505 = Emulation(
    machine="mps2-an505", icount_shift=6, variant="an505", cpu_flags=(), source="test"
)


def test_command_line_is_exactly_this() -> None:
    assert qemu.argv(AN505, Path("/r/firmware.elf"), Path("/r/qmp.sock"), nudge_fd=9) == (
        "qemu-system-arm",
        "-M",
        "mps2-an505",
        "-nodefaults",
        "-no-user-config",
        "-nic",
        "none",
        "-display",
        "none",
        "-monitor",
        "none",
        "-chardev",
        "stdio,id=uart0,signal=off",
        "-serial",
        "chardev:uart0",
        "-icount",
        "shift=6,sleep=off",
        "-qmp",
        "unix:/r/qmp.sock,server=on,wait=off",
        "-chardev",
        "socket,id=nudge,fd=9",
        "-mon",
        "chardev=nudge,mode=readline",
        "-kernel",
        "/r/firmware.elf",
    )


def test_comma_in_a_path_stays_inside_its_option() -> None:
    argv = qemu.argv(AN505, Path("/r/f.elf"), Path("/a,b/qmp.sock"), nudge_fd=3)
    assert "unix:/a,,b/qmp.sock,server=on,wait=off" in argv
