"""What sketches/conformance prints on every board: the list that lies beside the sketch."""

from __future__ import annotations

from harness.paths import sketches_dir

_LINES = (sketches_dir() / "conformance" / "values.txt").read_text(encoding="utf-8").splitlines()

CORE_VALUES = dict(line.split("=", 1) for line in _LINES if "=" in line and line[0] != "#")
