"""When a virtual board may use the host's processor.

QEMU with ``sleep=off`` never idles: a sketch in ``delay()`` spins through virtual time as fast as
the host can.  So a board that nobody reads stands still after a while, and one that is read but
says and hears nothing for long gets a fraction of the processor.  Virtual time counts
instructions, so neither is visible to the sketch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

UNREAD_S = 2.0
"""A board runs on for this long with its port closed, then stops until somebody opens it."""

SILENT_S = 20.0
"""A board whose port is open runs at full speed through this much silence, both ways.

Long enough for the slowest inference of the suite: a busy board is silent, too.
"""

DUTY_PERIOD_S = 0.5
DUTY_ON_S = 0.05
"""After that it runs for this part of each period: 10 %."""


@dataclass(frozen=True)
class Leave:
    """Whether the board may run now, and the monotonic second at which to ask again."""

    run: bool
    again_at_s: float


def leave(now_s: float, *, reader: bool, read_at_s: float, traffic_at_s: float) -> Leave:
    """Decide for the moment ``now_s``.

    ``read_at_s``: when the port was last seen open, or the board booted or woken.
    ``traffic_at_s``: when a byte last passed either way, or the board booted or woken.
    """
    if not reader:
        ends_s = read_at_s + UNREAD_S
        return Leave(True, ends_s) if now_s < ends_s else Leave(False, math.inf)
    ends_s = traffic_at_s + SILENT_S
    if now_s < ends_s:
        return Leave(True, ends_s)
    period = math.floor((now_s - ends_s) / DUTY_PERIOD_S)
    period_at_s = ends_s + period * DUTY_PERIOD_S
    if now_s < period_at_s + DUTY_ON_S:
        return Leave(True, period_at_s + DUTY_ON_S)
    return Leave(False, period_at_s + DUTY_PERIOD_S)
