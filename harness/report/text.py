"""A run as text for people: a table, and each verdict that is not *passed* with its remedy.

What a device printed is hostile: control characters are escaped before they reach a terminal.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

from harness.report.verdict import Diagnosis

NOT_MEASURED = "not measured on this lane"
COLOURS = {"passed": "green", "failed": "red", "fault": "magenta", "skipped": "yellow"}
EVIDENCE_LINES = 20
_MEASURED = ("output", "flash_bytes", "ram_bytes", "arena_bytes", "instructions")


def printable(text: str, *, limit: int = 300) -> str:
    """One line with control characters written out, cut at ``limit`` characters."""
    safe = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
    return safe if len(safe) <= limit else f"{safe[:limit]} ... ({len(safe)} characters)"


def safe_block(text: str) -> str:
    """Several lines with control characters written out; newlines and tabs stay."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def table(runs: Iterable[Mapping[str, object]], *, width: int = 118, colour: bool = False) -> str:
    """The measurements of one or several ``run.json`` records as a table."""
    # Imported here: most commands, and every pytest run without a board, show no table.
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("board", "model or sketch", "verdict", "output"):
        grid.add_column(heading, overflow="fold")
    for heading in ("flash B", "RAM B", "arena B", "instructions"):
        grid.add_column(heading, justify="right", overflow="fold")
    for run in runs:
        measurements = run.get("measurements")
        for each in measurements if isinstance(measurements, list) else ():
            verdict = str(each.get("verdict") or "not run")
            if verdict == "skipped" and not any(each.get(key) for key in _MEASURED):
                continue
            shade = COLOURS.get(verdict, "white")
            counted = each.get("instructions")
            grid.add_row(
                escape(_board(run)),
                escape(printable(str(each.get("subject")))),
                f"[{shade}]{verdict}[/]",
                escape(printable(str(each.get("output") or "-"), limit=60)),
                _number(each.get("flash_bytes")),
                _number(each.get("ram_bytes")),
                _number(each.get("arena_bytes")),
                _number(counted)
                if counted is not None or run.get("lane") == "emulated"
                else NOT_MEASURED,
            )
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=colour, no_color=not colour).print(grid)
    return stream.getvalue().rstrip("\n")


def _board(run: Mapping[str, object]) -> str:
    """The board's name; with the core's version where that is a choice, and a stand-in named."""
    if run.get("lane") != "hardware":
        return str(run.get("board"))
    stand_in = " stand-in" if run.get("stand_in") else ""
    return f"{run.get('board')} {run.get('core_version')}{stand_in}"


def skipped_text(skipped: Iterable[Diagnosis]) -> list[str]:
    """One line for each remedy: how many cases wait for it, and what the first of them lacks."""
    by_remedy: dict[str, list[Diagnosis]] = {}
    for each in skipped:
        by_remedy.setdefault(each.remedy, []).append(each)
    return [
        f"skipped {len(each)}: {printable(each[0].symptom)}: {printable(remedy)}"
        for remedy, each in by_remedy.items()
    ]


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"


def diagnosis_text(kind: str, diagnosis: Diagnosis) -> str:
    """A verdict's diagnosis as a few lines: what, why, what to do, and what was seen."""
    lines = [f"{kind} in {diagnosis.stage}: {printable(diagnosis.symptom, limit=1000)}"]
    if diagnosis.cause != diagnosis.symptom:
        lines.append(f"  cause:  {printable(diagnosis.cause, limit=1000)}")
    lines.append(f"  remedy: {printable(diagnosis.remedy, limit=1000)}")
    lines.extend(f"  | {printable(line)}" for line in diagnosis.evidence[-EVIDENCE_LINES:])
    return "\n".join(lines)
