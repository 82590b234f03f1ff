"""The core's registers as OpenOCD prints them, out of what QEMU's monitor says."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.emulator.qmp import Monitor

NAMES = (
    *(f"r{number}" for number in range(13)), "sp", "lr", "pc", "xpsr", "msp", "psp",
)  # fmt: skip
MASKS = ((20, "primask", 1), (21, "basepri", 8), (22, "faultmask", 1), (23, "control", 3))
QEMU = {"R13": "sp", "R14": "lr", "R15": "pc", "XPSR": "xpsr"}


def core_registers(monitor: Monitor) -> dict[str, int]:
    """Register values by OpenOCD's names; the stack pointer that is not in use is missing."""
    return parse(monitor.command("info registers"))


def parse(text: str) -> dict[str, int]:
    """The same from the text of ``info registers``."""
    found = re.findall(r"\b(R\d\d|XPSR)=([0-9a-f]{8})\b", text)
    values = {
        QEMU.get(name, f"r{int(name[1:])}" if name != "XPSR" else name): int(value, 16)
        for name, value in found
    }
    if "sp" in values:
        # QEMU does not tell the two apart; the cores of the bench use the main one only.
        values["msp"] = values["sp"]
    return values


def register_lines(values: Mapping[str, int], only: str | None = None) -> str:
    """What ``reg`` prints; a register without a value has none in OpenOCD's cache."""
    rows = [(number, name, 32) for number, name in enumerate(NAMES)]
    rows += list(MASKS)
    lines = [] if only else ["===== arm v7m registers"]
    for number, name, bits in rows:
        value = f": 0x{values[name]:0{(bits + 3) // 4}x}" if name in values else ""
        if only == name:
            lines.append(f"{name} (/{bits}){value}")
        elif only is None:
            lines.append(f"({number}) {name} (/{bits}){value}")
    return "\n".join(lines)
