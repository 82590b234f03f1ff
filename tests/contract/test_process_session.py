"""Whatever a tool starts ends with it, also what it put out of reach of its own group."""

from __future__ import annotations

import sys

from harness import process
from harness.clock import Deadline, pause

GROUP_OF_ITS_OWN = """
import os, sys, time
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    time.sleep(300)
print(child, flush=True)
time.sleep(300)
"""


def test_a_tool_that_is_ended_takes_its_children_along_whatever_their_group() -> None:
    tool = process.spawn((sys.executable, "-c", GROUP_OF_ITS_OWN))
    try:
        assert tool.stdout is not None
        grandchild = int(tool.stdout.readline())
        assert process.alive(grandchild)
    finally:
        process.end(tool, grace_s=0.5)
    deadline = Deadline.after(5)
    while process.alive(grandchild) and not deadline.expired:
        pause(0.01)
    assert not process.alive(grandchild)
