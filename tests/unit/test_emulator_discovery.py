import json
import sys
from pathlib import Path

import pytest

from harness import paths, process

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
