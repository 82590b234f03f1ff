import json
import os
import sys
from pathlib import Path

import pytest

from harness import paths, process
from harness.emulator.folder import OwnerId

TOOL = paths.platform_dir() / "hil" / "virtual" / "tools" / "discovery.py"


def talk(*lines: str, run_dir: Path) -> list[dict[str, object]]:
    """The discovery's messages for these lines and the end of its input."""
    done = process.run(
        [sys.executable, "-I", "-S", "-E", str(TOOL)],
        timeout_s=20,
        stdin="".join(line + "\n" for line in lines).encode(),
        env={"HIL_RUN_DIR": str(run_dir)},
    )
    assert done.ok, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_whole_conversation_with_no_board(tmp_path: Path) -> None:
    lines = ('HELLO 1 "arduino-cli 1.5.1"', "START", "LIST", "STOP", "START_SYNC", "STOP", "QUIT")
    assert talk(*lines, run_dir=tmp_path) == [
        {"eventType": "hello", "protocolVersion": 1, "message": "OK"},
        {"eventType": "start", "message": "OK"},
        {"eventType": "list", "ports": []},
        {"eventType": "stop", "message": "OK"},
        {"eventType": "start_sync", "message": "OK"},
        {"eventType": "stop", "message": "OK"},
        {"eventType": "quit", "message": "OK"},
    ]


@pytest.mark.parametrize(
    ("lines", "event"),
    [
        (("START",), "start"),
        (("HELLO",), "hello"),
        (('HELLO 1 "a"', 'HELLO 1 "a"'), "hello"),
        (('HELLO 1 "a"', "LIST"), "list"),
        (('HELLO 1 "a"', "STOP"), "stop"),
        (('HELLO 1 "a"', "START", "START_SYNC"), "start_sync"),
        (('HELLO 1 "a"', "DANCE"), "command_error"),
        (('HELLO 1 "a"', "\u00ff\u20ac"), "command_error"),
    ],
)
def test_command_out_of_place_is_an_error(
    lines: tuple[str, ...], event: str, tmp_path: Path
) -> None:
    last = talk(*lines, run_dir=tmp_path)[-1]
    assert (last["eventType"], last["error"]) == (event, True)


def test_end_of_input_ends_it(tmp_path: Path) -> None:
    assert talk(run_dir=tmp_path) == []


def test_no_port_is_announced_before_the_cli_has_opened_its_event_channel(tmp_path: Path) -> None:
    # arduino-cli drops what comes with the answer to START_SYNC, and then waits out its timeout.
    plugged(tmp_path)
    messages = talk('HELLO 1 "arduino-cli 1.5.1"', "START_SYNC", run_dir=tmp_path)
    assert [each["eventType"] for each in messages] == ["hello", "start_sync"]
    child = process.spawn(
        [sys.executable, "-I", "-S", "-E", str(TOOL)],
        stdin=process.PIPE,
        env={"HIL_RUN_DIR": str(tmp_path)},
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b'HELLO 1 "arduino-cli 1.5.1"\nSTART_SYNC\n')
        assert json.loads(child.stdout.readline())["eventType"] == "hello"
        assert json.loads(child.stdout.readline())["eventType"] == "start_sync"
        assert json.loads(child.stdout.readline())["eventType"] == "add"
    finally:
        process.end(child)


def plugged(run_dir: Path) -> None:
    """A board that looks plugged in: owned by this process."""
    folder = run_dir / "boards" / "HILM330001"
    folder.mkdir(parents=True)
    owner = OwnerId.of(os.getpid())
    record = {
        "board": "m33", "fqbn": "hil:virtual:m33", "address": str(folder / "tty"),
        "vid": "0x1209", "pid": "0x0033", "serial_number": "HILM330001", "label": "test",
        "pid_of_owner": owner.pid, "owner_started": owner.started,
        "control": str(folder / "control.sock"), "started": "2026-01-01T00:00:00+00:00",
    }  # fmt: skip
    (folder / "board.json").write_text(json.dumps(record), encoding="utf-8")
