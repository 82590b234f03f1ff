"""Upload a firmware with the real arduino-cli; success is what the board says, where it can.

After its upload tool has ended, arduino-cli watches the ports for another second in case the board
comes back under another name.  A virtual board says itself when it runs the firmware, so the run
goes on at that moment and the call is judged by its exit code when it ends.  Its port never
changes: at the end of a run nobody waits for that second either, once the tool has said that it is
done.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

from harness import process
from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli, failure_text, upload_arguments
from harness.boards.board import Board
from harness.clock import Deadline, monotonic_s, pause
from harness.errors import DeviceError, ToolError
from harness.storage.digest import file_digest

UPLOAD_TIMEOUT_S = 120.0

CLOSING_S = 20.0
"""Allowed for arduino-cli to end once the board runs the firmware: 1 s is usual."""

_ERROR = re.compile(r"\s*(error|adb: error|failed)\b", re.I)
_EXIT_STATUS = "exit status "
"""How Go programs, arduino-cli and remoteocd among them, call the failure of another program."""

_DONE_WITHIN_BYTES = 1 << 20

LOOK_S = 0.02
"""Between two questions to the board, and two looks at the tool's process."""


@dataclass(frozen=True)
class Running:
    """What a board says of itself: how often it has booted, and the SHA-256 of its firmware."""

    boots: int
    digest: str | None


class Upload:
    """One call of ``arduino-cli upload``, which ends on its own or with :meth:`abandon`."""

    def __init__(
        self,
        argv: tuple[str, ...],
        subject: str,
        env: dict[str, str],
        *,
        tool_done: re.Pattern[str] | None = None,
    ) -> None:
        """``subject`` names firmware and port in messages.

        ``tool_done`` is the line that the upload tool prints when it has done all that it is there
        for; what arduino-cli does after it is left out.
        """
        self.argv = argv
        self._subject = subject
        self._tool_done = tool_done
        self._started_s = monotonic_s()
        # Files, not pipes: nobody reads while the board is already at work.
        with ExitStack() as files:
            self._out = files.enter_context(tempfile.TemporaryFile())
            self._err = files.enter_context(tempfile.TemporaryFile())
            self._child: process.Process | None = process.spawn(
                argv, env=env, stdout=self._out.fileno(), stderr=self._err.fileno(), guarded=True
            )
            self._files = files.pop_all()

    @property
    def ended(self) -> bool:
        """Whether the call is over."""
        return self._child is None or self._child.poll() is not None

    def finish(self, deadline: Deadline) -> None:
        """Wait for the end of the call; a second call does nothing.

        Raises :class:`ToolError` when it failed, or is not over in time and had to be ended.
        """
        while not self.ended and not self._is_done() and not deadline.expired:
            pause(LOOK_S)
        child, self._child = self._child, None
        if child is None:
            return
        ended = child.poll() is not None
        # A call that ended by itself is judged by its exit code, whatever its tool has said.
        done_before_end = not ended and self._is_done()
        in_time = ended or done_before_end
        try:
            code = process.end(child, grace_s=0.5)
            done = process.Completed(
                self.argv, code, _text(self._out), _text(self._err), monotonic_s() - self._started_s
            )
        finally:
            self._files.close()
        lines = [line for line in failure_text(done).splitlines() if line.strip()]
        evidence = tuple(line[:300] for line in lines[-10:])
        if not in_time:
            raise ToolError(
                f"{self._subject}: arduino-cli did not end within {done.duration_s:.0f} s and was"
                " ended",
                remedy="look for what it waits for in the evidence; often a discovery that hangs",
                evidence=evidence,
            )
        if not done.ok and not done_before_end:
            reason = f": {_reason(lines)[:200]}" if lines else ", and printed no reason"
            raise ToolError(
                f"{self._subject} failed with exit code {code}{reason}",
                remedy="check that the board is still plugged in and that nothing else holds it",
                evidence=evidence,
            )

    def _is_done(self) -> bool:
        if self._tool_done is None:
            return False
        # Not through the file's own position, which the child writes at as well.
        said = os.pread(self._out.fileno(), _DONE_WITHIN_BYTES, 0).decode("utf-8", "replace")
        return self._tool_done.search(said) is not None

    def abandon(self) -> None:
        """End the call now, whatever it is doing, and forget what it had to say."""
        child, self._child = self._child, None
        if child is not None:
            process.end(child, grace_s=0.5)
            self._files.close()


def upload_command(
    cli: ArduinoCli,
    board: Board,
    firmware: Firmware,
    *,
    address: str,
    properties: Mapping[str, str] | None = None,
    streamed: bool = False,
) -> tuple[str, ...]:
    """The whole command line of an upload; ``streamed``: what the tool prints comes at once."""
    return cli.command_line(
        upload_arguments(
            fqbn=board.fqbn,
            address=address,
            input_dir=firmware.folder,
            properties=properties,
            streamed=streamed,
        )
    )


def upload(
    cli: ArduinoCli,
    board: Board,
    firmware: Firmware,
    *,
    address: str,
    properties: Mapping[str, str] | None = None,
    running: Callable[[], Running] | None = None,
    tool_done: re.Pattern[str] | None = None,
    timeout_s: float = UPLOAD_TIMEOUT_S,
) -> Upload:
    """Upload and return once the board runs the firmware.

    ``properties`` are handed to the upload tool whatever the discovery found; ``tool_done`` is the
    line with which it says that it has done all that it is there for.

    The caller owns the call and must :meth:`Upload.finish` it, which is where its exit code is
    judged; without ``running``, or when it ended first, that has been done.  Raises
    :class:`ToolError` when the tool fails and :class:`DeviceError` when it claims success but the
    board runs something else.
    """
    before = running().boots if running is not None else 0
    call = Upload(
        upload_command(
            cli,
            board,
            firmware,
            address=address,
            properties=properties,
            streamed=tool_done is not None,
        ),
        f"uploading {firmware.sketch!r} to {address!r}",
        cli.environment(),
        tool_done=tool_done,
    )
    deadline = Deadline.after(timeout_s)
    try:
        if running is None:
            call.finish(deadline)
            return call
        wanted = file_digest(firmware.elf)
        while not call.ended and not deadline.expired:
            now = running()
            # The same firmware may have been on the board before: only a boot tells them apart.
            if now.digest == wanted and now.boots > before:
                return call
            pause(LOOK_S)
        call.finish(deadline)
        _require_firmware(running(), before, wanted, firmware.sketch, address)
    except BaseException:
        call.abandon()
        raise
    return call


def _require_firmware(now: Running, before: int, wanted: str, sketch: str, address: str) -> None:
    if now.digest == wanted and now.boots > before:
        return
    what = "runs another firmware than" if now.digest != wanted else "was not flashed with"
    raise DeviceError(
        f"the upload tool reported success, but the board at {address!r} {what} {sketch!r}",
        remedy="upload again; if it repeats, reset the board and check its upload tool",
        evidence=(
            f"on the board: {now.digest}",
            f"uploaded:     {wanted}",
            f"boots:        {before} before, {now.boots} now",
        ),
    )


def _reason(lines: Sequence[str]) -> str:
    """The line that says most: a tool's last error; not that one program failed under another."""
    errors = [line for line in lines if _ERROR.match(line) and _EXIT_STATUS not in line]
    return (errors or lines)[-1].strip()


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(process.KEEP_BYTES).decode("utf-8", "replace")
