from __future__ import annotations

import threading

import pytest

from harness.heartbeat import heartbeat


def test_it_beats_while_the_step_lasts_and_never_after() -> None:
    twice = threading.Event()
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            twice.set()

    with heartbeat(say, lambda: "7 objects", every_s=0.01):
        assert twice.wait(10)
    count = len(said)
    assert said[0].startswith("7 objects after ")
    assert not [each for each in threading.enumerate() if each.name == "heartbeat"]
    assert len(said) == count


def test_an_error_passes_through_and_ends_it() -> None:
    with pytest.raises(ValueError, match="boom"), heartbeat(print, lambda: "", every_s=60):
        raise ValueError("boom")
    assert not [each for each in threading.enumerate() if each.name == "heartbeat"]
