"""What lies between a chip's UART and its port.

A plain board has wires.  On a Uno Q the port belongs to the Linux side: the sketch's ``Serial``
makes remote calls to ``arduino-router``, which hands their payload to whoever reads.  Written after
arduino-router 74fcdf0 (internal/monitorapi, internal/msgpackrouter, systemd units) and
Arduino_RouterBridge (monitor.h, bridge.h).

What the model does not do: it keeps prints in order (the router starts a thread for each
notification, so the real one may not; ``prints_reordered`` does it), and it is never slow.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.clock import monotonic_s
from harness.emulator.behaviour import Behaviour, Turns
from harness.emulator.line import QUEUE_BYTES, Line
from harness.emulator.noise import Noise
from harness.emulator.rpc import Call, Decoder, answer

ROUTER_VERSION = "0.6.0"
"""What ``$/version`` answers.  Inferred: the releases' numbering; a build of one's own says
``0.0.0-dev``."""

MONITOR_BYTES = 1024
"""Typed bytes that the router holds for the sketch (monitor-api.go); more waits behind them."""

READ_HOLD_S = 0.05
"""How long ``mon/read`` with nothing to read waits for input once a sketch does nothing but poll.
The real router answers at once; a chip that runs as fast as the host can would then poll the host's
processor away."""

IDLE_POLLS = 600
"""Empty reads since the last payload after which a sketch only polls.  A library asks the router
even while its own buffer of 512 bytes holds input, which a sketch may take one by one."""

SOCAT_RESTARTS_S = 3.0
"""Seconds without a reader after ``mon/reset``: systemd starts socat again (RestartSec)."""

INVALID_PARAMS, NOT_AVAILABLE, EXISTS = 1, 2, 5
"""Error codes of the router (msgpackrouter/errors.go)."""

RECENT_BYTES = 4096
"""How much of what the sketch said last is kept, to come again as stale output."""


class Route(Protocol):
    """The way between chip and port, told by the owner what happens."""

    to_chip: bytearray
    keeps_input: bool
    """Whether what is typed while no chip runs waits for the next one."""

    @property
    def takes_output(self) -> bool:
        """Whether the chip may say more."""

    def wanted(self) -> Mapping[int, int]:
        """Descriptors of its own to watch, with READ and WRITE; 0 is neither."""

    def ready(self, fd: int) -> bool:
        """Act on a descriptor that is ready; whether it was one of its own."""

    def close(self) -> None:
        """The board is unplugged."""

    def said(self, piece: bytes) -> None:
        """The chip sent these bytes."""

    def settle(self, now_s: float) -> float:
        """Do what is due; returns seconds until there is more to do."""

    def boots(self) -> None:
        """The chip starts anew."""

    def ended(self) -> None:
        """The chip's process is gone."""

    def uploaded(self) -> None:
        """New firmware has been written."""


class Inside:
    """A route with nothing to watch."""

    def wanted(self) -> Mapping[int, int]:
        """Nothing."""
        return {}

    def ready(self, fd: int) -> bool:
        """It has no descriptor."""
        del fd
        return False

    def close(self) -> None:
        """There is nothing to let go of."""


class Wires(Inside):
    """Every byte passes as it is."""

    keeps_input = False

    def __init__(self, line: Line) -> None:
        self._line = line
        self.to_chip = line.incoming

    @property
    def takes_output(self) -> bool:
        """Whether the port's queue has room."""
        return self._line.takes_output

    def said(self, piece: bytes) -> None:
        """To the port."""
        self._line.say(piece)

    def settle(self, now_s: float) -> float:
        """Nothing is ever due."""
        del now_s
        return math.inf

    def boots(self) -> None:
        """Nothing typed or said before is for this chip or of it."""
        self._line.clear()

    def ended(self) -> None:
        """Nobody will take what was typed."""
        self._line.incoming.clear()

    def uploaded(self) -> None:
        """Wires do not know."""


class Router(Inside):
    """The model of the router between the chip's remote calls and the port."""

    keeps_input = True

    def __init__(
        self, line: Line, behaviour: Behaviour, turns: Turns, *, up_at_s: float = 0.0
    ) -> None:
        self.to_chip = bytearray()
        self.up_at_s = up_at_s
        """The monotonic second at which the Linux side's router runs; bytes before it are lost."""
        self._line = line
        self._behaviour = behaviour
        self._turns = turns
        self._noise = Noise(behaviour, turns)
        self._decoder = Decoder()
        self._registered: set[str] = set()
        self._held: list[tuple[int, int, float]] = []
        self._later: deque[tuple[float, bytes]] = deque()
        self._lost_until_s = 0.0
        self._prints = 0
        self._empty_polls = 0
        self._stalled = False
        self._recent = bytearray()

    @property
    def takes_output(self) -> bool:
        """Whether the port's queue has room, and what is sent late is not too much."""
        return self._line.takes_output and sum(len(piece) for _, piece in self._later) < QUEUE_BYTES

    @property
    def connected(self) -> bool:
        """Whether somebody reads.  Inferred: the real router sees socat, not the host's reader."""
        return self._line.reader and monotonic_s() >= self._lost_until_s

    def said(self, piece: bytes) -> None:
        """Decode the calls and answer them."""
        if monotonic_s() < self.up_at_s:
            return
        for call in self._decoder.feed(self._noise.on_uart(piece)):
            if not self._stalled:
                self._handle(call)

    def settle(self, now_s: float) -> float:
        """Answer reads that were held, and send what was held back."""
        held, self._held = self._held, []
        for number, most, ends_s in held:
            if self._line.incoming or now_s >= ends_s:
                self._answer_read(number, most)
            else:
                self._held.append((number, most, ends_s))
        while self._later and self._later[0][0] <= now_s:
            self._send(self._later.popleft()[1])
        due = [ends_s for *_, ends_s in self._held] + [at_s for at_s, _ in list(self._later)[:1]]
        return max(0.0, min(due, default=math.inf) - now_s)

    def boots(self) -> None:
        """The router lives on, with what was typed; calls of the chip before are void."""
        if not self._turns.take(self._behaviour.torn_by_reset):
            # A reset hits a message rarely at a real chip's speed and often at QEMU's.
            self._decoder.forget()
        self.ended()
        self._noise.boots()
        self._prints = self._empty_polls = 0
        self._stalled = False
        self._line.wake()

    def ended(self) -> None:
        """Nobody waits for an answer any more."""
        self.to_chip.clear()
        self._held.clear()

    def uploaded(self) -> None:
        """Let stale output come, if it is asked for."""
        stale = self._behaviour.stale_output
        if stale is not None and self._turns.take(stale):
            lines = [line.encode() + b"\r\n" for line in stale.lines] or [bytes(self._recent)]
            for line in lines:
                self._send(line)

    def _handle(self, call: Call) -> None:
        if call.method == "mon/read" and self._wants_read(call):
            assert call.number is not None
            most = call.params[0]
            assert isinstance(most, int)
            if self._line.incoming or self._empty_polls < IDLE_POLLS:
                self._answer_read(call.number, most)
            else:
                self._held.append((call.number, most, monotonic_s() + READ_HOLD_S))
            return
        error, result = self._result(call)
        if call.number is not None:
            self.to_chip += answer(call.number, error, result)

    @staticmethod
    def _wants_read(call: Call) -> bool:
        return call.number is not None and len(call.params) == 1 and _is_count(call.params[0])

    def _answer_read(self, number: int, most: int) -> None:
        size = min(most, MONITOR_BYTES)
        piece = bytes(self._line.incoming[:size])
        del self._line.incoming[:size]
        self._empty_polls = 0 if piece else self._empty_polls + 1
        self.to_chip += answer(number, None, piece)

    def _result(self, call: Call) -> tuple[object, object]:
        params = call.params
        match call.method:
            case "$/version":
                return None, ROUTER_VERSION
            case "$/reset":
                if params:
                    return [INVALID_PARAMS, "invalid params: no params are expected"], None
                self._registered.clear()
                return None, True
            case "$/register":
                return self._register(params)
            case "mon/connected" | "mon/reset" if params:
                text = "Invalid number of parameters, expected no parameters"
                return [INVALID_PARAMS, text], None
            case "mon/connected":
                return None, self.connected
            case "mon/reset":
                self._lost_until_s = monotonic_s() + SOCAT_RESTARTS_S
                return None, True
            case "mon/read":
                return self._read(params)
            case "mon/write":
                return self._write(params)
        # A chip's own method would be called back; no sketch of the bench does that.
        return [NOT_AVAILABLE, f"method {call.method} not available"], None

    def _register(self, params: Sequence[object]) -> tuple[object, object]:
        match params:
            case [str(name)] if name in self._registered:
                return [EXISTS, f"route already exists: {name}"], None
            case [str(name)]:
                self._registered.add(name)
                return None, True
            case [_]:
                return [INVALID_PARAMS, "invalid params: expected string"], None
        text = f"invalid params: only one param is expected, got {len(params)}"
        return [INVALID_PARAMS, text], None

    def _read(self, params: object) -> tuple[object, object]:
        match params:
            case [int(count)] if _is_count(count):
                # Only as a notification does it come here: what it reads is lost.
                del self._line.incoming[: min(count, MONITOR_BYTES)]
                return None, b""
            case [_]:
                text = "Invalid parameter type, expected positive int for max bytes to read"
                return [INVALID_PARAMS, text], None
        text = "Invalid number of parameters, expected max bytes to read"
        return [INVALID_PARAMS, text], None

    def _write(self, params: object) -> tuple[object, object]:
        match params:
            case [str(text)]:
                data = text.encode("utf-8", "surrogateescape")
            case [bytes(data)]:
                pass
            case [_]:
                text = "Invalid parameter type, expected []byte or string for data to write"
                return [INVALID_PARAMS, text], None
            case _:
                text = "Invalid number of parameters, expected data to write"
                return [INVALID_PARAMS, text], None
        self._print(data)
        return None, len(data)

    def _print(self, data: bytes) -> None:
        self._prints += 1
        self._empty_polls = 0
        stalls, lost = self._behaviour.router_stalls, self._behaviour.reader_lost
        if stalls and self._prints > stalls.after_prints and self._turns.take(stalls):
            self._stalled = True
            return
        if lost and self._prints > lost.after_prints and self._turns.left(lost):
            now_s = monotonic_s()
            if now_s >= self._lost_until_s:
                self._turns.take(lost)
                self._lost_until_s = now_s + lost.for_ms / 1000
        self._recent += data
        del self._recent[:-RECENT_BYTES]
        for fragment in self._noise.on_print(data):
            self._send_torn(fragment)

    def _send_torn(self, fragment: bytes) -> None:
        torn = self._behaviour.prints_torn
        if torn is None or len(fragment) <= torn.every_bytes or not self._turns.take(torn):
            pieces = [fragment]
        else:
            starts = range(0, len(fragment), torn.every_bytes)
            pieces = [fragment[at : at + torn.every_bytes] for at in starts]
        if len(pieces) == 1 and not self._later:
            self._send(fragment)
            return
        pause_s = (torn.pause_ms if torn else 0) / 1000
        at_s = max(monotonic_s(), self._later[-1][0] if self._later else 0.0)
        self._later += ((at_s + number * pause_s, piece) for number, piece in enumerate(pieces))

    def _send(self, fragment: bytes) -> None:
        if monotonic_s() < self._lost_until_s:
            self._line.dropped_bytes += len(fragment)
        else:
            self._line.say(fragment)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
