"""Upload a firmware with the real arduino-cli, then ask the board whether it has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.arduino.build import Firmware
from harness.arduino.cli import ArduinoCli, failure_text, upload_arguments
from harness.boards.board import Board
from harness.errors import DeviceError, ToolError

UPLOAD_TIMEOUT_S = 120.0


def upload(
    cli: ArduinoCli,
    board: Board,
    firmware: Firmware,
    *,
    address: str,
    firmware_digest: Callable[[], str | None] | None = None,
    expected_digest: Callable[[Path], str] | None = None,
) -> tuple[str, ...]:
    """Upload and return the command line.

    Where the board can be asked, success is what it says afterwards, not the tool's exit code.
    Raises :class:`ToolError` when the tool fails and :class:`DeviceError` when it claims success
    but the board runs something else.
    """
    done = cli.run(
        upload_arguments(fqbn=board.fqbn, address=address, input_dir=firmware.folder),
        timeout_s=UPLOAD_TIMEOUT_S,
    )
    if not done.ok:
        lines = [line for line in failure_text(done).splitlines() if line.strip()]
        reason = f": {lines[-1][:200]}" if lines else ", and printed no reason"
        raise ToolError(
            f"uploading {firmware.sketch!r} to {address!r} failed with exit code"
            f" {done.returncode}{reason}",
            remedy="check that the board is still plugged in and that nothing else holds it",
            evidence=tuple(line[:300] for line in lines[-10:]),
        )
    if firmware_digest is not None and expected_digest is not None:
        runs, wanted = firmware_digest(), expected_digest(firmware.elf)
        if runs != wanted:
            raise DeviceError(
                f"the upload tool reported success, but the board at {address!r} runs another"
                f" firmware than {firmware.sketch!r}",
                remedy="upload again; if it repeats, reset the board and check its upload tool",
                evidence=(f"on the board: {runs}", f"uploaded:     {wanted}"),
            )
    return done.argv
