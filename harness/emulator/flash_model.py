"""What lies in the stand-in's flash between two runs of its debugger."""

from __future__ import annotations

from dataclasses import dataclass

from harness.emulator.image import header_problem


@dataclass
class Flash:
    """Loader and sketch as they were written; None where nothing was.

    ``written``: the sketch is new since the chip last started.  ``rejected``: the loader is to
    refuse it whatever its header says.
    """

    loader: bytes | None = None
    sketch: bytes | None = None
    written: bool = False
    rejected: bool = False
    uploads: int = 0
    """How often a tool was told that the sketch is in, true or not."""

    writes: int = 0
    """How often a sketch was really written."""

    def write(self, image: bytes) -> None:
        """Put a sketch in."""
        self.sketch = image
        self.written = True
        self.writes += 1
        self.rejected = False

    def forget(self) -> None:
        """Firmware came some other way: what was written here is gone."""
        self.sketch = None
        self.written = self.rejected = False

    @property
    def problem(self) -> str | None:
        """Why the loader does not start the sketch, or None."""
        if self.rejected:
            return "Invalid sketch header"
        return None if self.sketch is None else header_problem(self.sketch)
