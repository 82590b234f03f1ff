"""Signs of life from a step that takes minutes and says nothing itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.clock import monotonic_s

EVERY_S = 20.0


@contextmanager
def heartbeat(
    say: Callable[[str], None], state: Callable[[], str], *, every_s: float = EVERY_S
) -> Iterator[None]:
    """Say ``state()`` and the seconds so far every ``every_s`` seconds until the block ends."""
    over = threading.Event()
    began_s = monotonic_s()

    def beat() -> None:
        while not over.wait(every_s):
            say(f"{state()} after {monotonic_s() - began_s:.0f} s")

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
