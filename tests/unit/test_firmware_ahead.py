"""Firmware built in the background: what is asked for arrives, and a failure ends only its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness import firmware_ahead, process
from harness.boards.board import find_board
from harness.errors import DutFailure
from harness.pipeline import Bench, Request


def request() -> Request:
    board = find_board("unoq")
    return Request(
        board,
        board.core_version("0.55.2"),
        executorch=Path("/e"),
        root_ops="aten::add.out",
        all_ops=True,
        virtual=True,
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    argvs: list[tuple[str, ...]] = []

    def spawn(argv: tuple[str, ...], **more: object) -> object:
        assert more["guarded"] is True
        argvs.append(argv)
        return object()

    monkeypatch.setattr(process, "spawn", spawn)
    return argvs


def test_the_child_gets_the_same_request(asked: list[tuple[str, ...]]) -> None:
    assert firmware_ahead.begin(request(), ["add", "ds_cnn"]) is not None
    ((python, *module, text),) = asked
    assert (python, module) == (sys.executable, ["-m", "harness.firmware_ahead"])
    assert firmware_ahead.read_request(text) == (request(), ["add", "ds_cnn"])


def test_without_a_model_nothing_is_started(asked: list[tuple[str, ...]]) -> None:
    assert firmware_ahead.begin(request(), []) is None
    assert asked == []


def test_one_that_fails_does_not_keep_the_next_from_being_built(
    asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(Bench, "model", lambda _, name: name)

    def runner(_: Bench, name: str) -> None:
        if name == "bad":
            raise DutFailure("it does not compile", remedy="none")
        built.append(name)

    monkeypatch.setattr(Bench, "runner", runner)
    firmware_ahead.begin(request(), ["add", "bad", "ds_cnn"])
    assert firmware_ahead.main(asked[0][-1]) == 0
    assert built == ["add", "ds_cnn"]
