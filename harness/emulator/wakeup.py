"""Waiting: which descriptors are ready, and signals turned into one of them."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Watcher:
    """A selector told each time the whole of what matters; it changes only the difference."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._masks: dict[int, int] = {}

    def wait(self, wanted: Mapping[int, int], timeout_s: float) -> list[int]:
        """Descriptors of ``wanted`` (descriptor to READ | WRITE, 0 for neither) that are ready."""
        for fd in [known for known in self._masks if not wanted.get(known)]:
            self.forget(fd)
        for fd, mask in wanted.items():
            if mask and self._masks.get(fd) != mask:
                change = self._selector.modify if fd in self._masks else self._selector.register
                change(fd, mask)
                self._masks[fd] = mask
        return [key.fd for key, _ in self._selector.select(timeout_s)]

    def forget(self, fd: int) -> None:
        """Stop watching; to be called before ``fd`` is closed, since its number comes again."""
        if self._masks.pop(fd, 0):
            self._selector.unregister(fd)

    def close(self) -> None:
        """Stop watching everything; :meth:`forget` may still be called."""
        self._masks.clear()
        self._selector.close()


@contextmanager
def signals(on_end: Callable[[], None]) -> Iterator[int]:
    """A descriptor that is readable after a signal; those that end a process call ``on_end``."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        on_end()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame

    receiving, sending = os.pipe()
    os.set_blocking(receiving, False)
    os.set_blocking(sending, False)
    handlers = {signal.SIGTERM: end, signal.SIGINT: end, signal.SIGHUP: end, signal.SIGCHLD: note}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    old = signal.set_wakeup_fd(sending, warn_on_full_buffer=False)
    try:
        yield receiving
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(receiving)
        os.close(sending)


def drain(fd: int) -> None:
    """Empty the descriptor of :func:`signals`."""
    with suppress(BlockingIOError):
        os.read(fd, 4096)
