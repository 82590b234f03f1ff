"""How QEMU is started as the chip of an emulated board, and how it is kept listening.

QEMU watches the UART's input only while the UART can take a byte, and looks whether it can only
when its main loop turns.  Enabling the receiver does not turn it, so a board that says nothing
would stay deaf (hw/char/cmsdk-apb-uart.c as of 7.2; QEMU's user network hides it by waking up once
a second).  An empty line on a monitor of its own turns the loop: that is the nudge.
"""

from __future__ import annotations

import socket
from pathlib import Path

from harness.boards.board import Emulation
from harness.emulator.child import Child

PROGRAM = "qemu-system-arm"
QMP_SOCKET = "qmp.sock"


def start(emulation: Emulation, firmware: Path, qmp: Path) -> Child:
    """Start the chip with ``firmware``.  Raises :class:`ToolError` when there is no QEMU."""
    ours, its = socket.socketpair()
    try:
        ours.setblocking(False)
        command = argv(emulation, firmware, qmp, nudge_fd=its.fileno())
        return Child.start(command, cwd=firmware.parent, nudge=ours, pass_fds=(its.fileno(),))
    except BaseException:
        ours.close()
        raise
    finally:
        its.close()


def argv(emulation: Emulation, firmware: Path, qmp: Path, *, nudge_fd: int) -> tuple[str, ...]:
    """The command line: UART 0 on standard input and output, QMP on the socket ``qmp``.

    ``sleep=off`` lets virtual time jump over waits; ``shift`` makes an instruction last
    ``2 ** shift`` ns of it.  ``signal=off`` and the closed monitor leave every byte to the sketch.
    ``nudge_fd`` is the socket of the monitor that only turns the main loop.
    """
    return (
        PROGRAM,
        "-M",
        emulation.machine,
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
        f"shift={emulation.icount_shift},sleep=off",
        "-qmp",
        f"unix:{_escaped(qmp)},server=on,wait=off",
        "-chardev",
        f"socket,id=nudge,fd={nudge_fd}",
        "-mon",
        "chardev=nudge,mode=readline",
        "-kernel",
        str(firmware),
    )


def _escaped(path: Path) -> str:
    """A path inside one of QEMU's option lists, where a comma separates."""
    return str(path).replace(",", ",,")
