"""The only module that starts processes.

A child runs in a session of its own, so that everything it starts can be ended with it: ask
(SIGINT or SIGTERM), then terminate, then kill, and always reap.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness import guard
from harness.clock import Deadline, monotonic_s
from harness.errors import ToolError

Process = subprocess.Popen[bytes]
PIPE = subprocess.PIPE
DEVNULL = subprocess.DEVNULL

GRACE_S = 3.0
"""Seconds a child is given after each request to end before the next, harder one."""

PR_SET_PDEATHSIG = 1
"""Linux's prctl(2) option: the signal this process gets when its parent ends."""

KEEP_BYTES = 64 * 1024 * 1024
"""Most bytes of a child's output that are held in memory; a tool that prints more is ended."""


@dataclass(frozen=True)
class Completed:
    """What a finished child left: its command line, exit code, output and duration."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    duration_s: float

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.returncode == 0

    def tail(self, lines: int = 12) -> tuple[str, ...]:
        """The last lines of its output, standard error after standard output."""
        both = [line for line in (self.stdout + "\n" + self.stderr).splitlines() if line.strip()]
        return tuple(both[-lines:])


def spawn(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
    die_with_parent: bool = False,
    guarded: bool = False,
) -> subprocess.Popen[bytes]:
    """Start ``argv`` in a session of its own; the caller owns it and must :func:`end` it.

    ``guarded``: it and whatever it started are killed when this process ends in any way, SIGKILL
    included; a process between the two sees to that, which is the one returned, and which ends
    with :data:`harness.guard.CANNOT_START` for what is no program.  ``die_with_parent``: the kernel
    does so for the child alone, and at once (Linux only; elsewhere it is ignored); for
    single-threaded callers.  Raises :class:`ToolError` when it cannot be started at all.
    """
    try:
        return subprocess.Popen(
            [*_guard(), *argv] if guarded else list(argv),
            cwd=cwd,
            env=dict(env) if env is not None else None,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
            preexec_fn=_tie_to(os.getpid()) if die_with_parent else None,
        )
    except OSError as error:
        raise _cannot_start(argv, error.strerror or str(error)) from error


def _guard() -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-E", str(guard.__file__), str(os.getpid()))


def _cannot_start(argv: Sequence[str], why: str) -> ToolError:
    return ToolError(
        f"cannot start {argv[0]!r}: {why}",
        remedy="install it, or run 'hil doctor' to see what is missing",
    )


def _tie_to(parent: int) -> Callable[[], None] | None:
    """What a child runs before its program so that it dies with ``parent``."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the call; then no signal would ever come.
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return tie


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    on_output: Callable[[bytes], None] | None = None,
) -> Completed:
    """Run ``argv`` to its end and return what it left; a non-zero exit is not an error here.

    ``on_output`` is called with each piece of either stream as it arrives.  Raises
    :class:`ToolError` when it cannot be started, takes over ``timeout_s`` seconds or prints more
    than :data:`KEEP_BYTES`.  The child and everything it started are gone when this returns or
    raises, KeyboardInterrupt included, and soon after this process was killed.
    """
    started_s = monotonic_s()
    deadline = Deadline.after(timeout_s)
    child = spawn(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
        guarded=True,
    )
    try:
        out, err = _communicate(child, stdin, deadline, on_output, argv, timeout_s)
        child.wait()
    finally:
        end(child, grace_s=0.5)
    if child.returncode == guard.CANNOT_START and not out:
        raise _cannot_start(argv, err.decode("utf-8", "replace").strip())
    return Completed(
        argv=tuple(argv),
        returncode=child.returncode,
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
        duration_s=monotonic_s() - started_s,
    )


def _communicate(
    child: subprocess.Popen[bytes],
    stdin: bytes | None,
    deadline: Deadline,
    on_output: Callable[[bytes], None] | None,
    argv: Sequence[str],
    timeout_s: float,
) -> tuple[bytes, bytes]:
    assert child.stdout is not None
    assert child.stderr is not None
    kept: dict[int, list[bytes]] = {child.stdout.fileno(): [], child.stderr.fileno(): []}
    out_fd, err_fd = kept
    held_bytes = 0
    pending = memoryview(stdin) if stdin is not None else memoryview(b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in kept:
            selector.register(descriptor, selectors.EVENT_READ)
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            selector.register(child.stdin.fileno(), selectors.EVENT_WRITE)
        while selector.get_map():
            if deadline.expired:
                raise ToolError(
                    f"{Path(argv[0]).name!r} did not finish within {timeout_s:g} s and was ended",
                    remedy="look at its output in the run's folder; a loaded machine needs"
                    " a longer limit",
                    evidence=_lines(kept),
                )
            ready = selector.select(min(1.0, deadline.remaining_s))
            if not ready and child.poll() is not None:
                # A grandchild holds the pipe open; the child itself has said all it will.
                break
            for key, _ in ready:
                if key.fd not in kept:
                    pending = _feed(key.fd, pending)
                    if not pending and child.stdin is not None:
                        selector.unregister(key.fd)
                        with suppress(OSError):
                            child.stdin.close()
                    continue
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fd)
                    continue
                held_bytes += len(piece)
                kept[key.fd].append(piece)
                if on_output is not None:
                    on_output(piece)
                if held_bytes > KEEP_BYTES:
                    raise ToolError(
                        f"{Path(argv[0]).name!r} printed more than {KEEP_BYTES} bytes"
                        " and was ended",
                        remedy="run it by hand to see why it does not stop printing",
                        evidence=_lines(kept),
                    )
    return b"".join(kept[out_fd]), b"".join(kept[err_fd])


def _feed(descriptor: int, pending: memoryview) -> memoryview:
    try:
        return pending[os.write(descriptor, pending[:65536]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return pending[:0]


def _lines(kept: Mapping[int, list[bytes]]) -> tuple[str, ...]:
    text = b"\n".join(b"".join(pieces)[-4096:] for pieces in kept.values())
    return tuple(text.decode("utf-8", "replace").splitlines()[-12:])


def end(child: subprocess.Popen[bytes], *, grace_s: float = GRACE_S) -> int:
    """End ``child`` and its whole session, harder each time, and reap it.

    Returns its exit code.  A child that has already ended is only reaped; what it left running in
    its session is killed all the same.
    """
    cut_off = child.poll() is None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            break
        signal_session(child.pid, number)
        # A stopped child takes no signal but SIGKILL until it is continued.
        signal_session(child.pid, signal.SIGCONT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=grace_s)
    signal_session(child.pid, signal.SIGKILL)
    if cut_off:
        guard.kill_session(child.pid)
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    return child.wait()


def signal_session(pid: int, number: signal.Signals) -> None:
    """Send a signal to the process group that ``pid`` leads; none left is not an error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def alive(pid: int) -> bool:
    """Whether a process with this id exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        # No /proc (macOS): existence is all that can be known.
        return not Path("/proc/self").exists()
    return stat.rpartition(")")[2].split()[0] != "Z"
