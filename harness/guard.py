"""Runs a command and sees to it that nothing of it outlives the process that asked for it.

A script of its own, which :mod:`harness.process` starts everything else under: a killed run cannot
clean up, and an upload or a compile that goes on would meet those of the next run.  The standard
library only, and quick to start.
"""

from __future__ import annotations

import os
import select
import signal
import sys

# Pathlib and the abstract types would double the time to start.
# ruff: noqa: PTH112, PTH123, PTH208

CANNOT_START = 213
"""Exit code when the command could not be started; the reason is on standard error."""

LOOK_S = 0.05
"""Between two looks where the kernel does not tell of a process's end (before Linux 5.3)."""

ITS_OWN = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that the command is to take as if nobody stood before it."""


def kill_session(leader: int, *, spare: int = 0) -> None:
    """Kill what runs in the session of ``leader``, whatever process group it is in.

    arduino-cli puts every compiler and upload tool that it starts into one, where no signal to
    its own group arrives.  Only Linux tells who they are.
    """
    # Twice: one that was just starting another one may have been missed.
    for _ in range(2):
        for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # After the name in parentheses: state, parent, group, session.
                    session = int(file.read().rpartition(b")")[2].split()[3])
                if session == leader and int(name) != spare:
                    os.kill(int(name), signal.SIGKILL)
            except (OSError, ValueError, IndexError):
                continue


def wait(parent: int, child: int) -> int | None:
    """The wait status of ``child`` once it has ended; None when ``parent`` ended first."""
    watched: list[int] = []
    if hasattr(os, "pidfd_open"):
        try:
            watched = [os.pidfd_open(child), os.pidfd_open(parent)]
        except OSError:
            # Too old a kernel, or the parent is gone: the look below tells which.
            watched = []
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if os.getppid() != parent:
            return None
        select.select(watched, [], [], None if watched else LOOK_S)


def main(argv: list[str]) -> int:
    """``guard.py PID COMMAND...``: ``PID`` is the process whose end is the command's as well."""
    parent, command = int(argv[1]), argv[2:]
    for number in (signal.SIGINT, signal.SIGTERM):
        # They are for the command, which is in this process's group and hears them itself.
        signal.signal(number, lambda *_: None)
    try:
        child = os.posix_spawnp(command[0], command, os.environ, setsigdef=ITS_OWN)
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        return CANNOT_START
    status = wait(parent, child)
    if status is None:
        kill_session(os.getpid(), spare=os.getpid())
        return 1
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        # As it ended, so that whoever waits is told the same.
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv))
