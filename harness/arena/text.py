"""A band as a table for people, and as plain data."""

from __future__ import annotations

import io
from collections.abc import Sequence

from harness.arena.band import Band, Row
from harness.arena.canary import CanaryResult
from harness.arena.lower import Outcome
from harness.boards.board import Standing
from harness.report.text import printable

GOOD, BAD, WARNING = "green", "red", "yellow"


def band_text(bands: Sequence[Band], *, width: int = 118, colour: bool = False) -> str:
    """Every band as a table with its sentences, one after the other."""
    return "\n\n".join(_one(band, width, colour) for band in bands)


def _one(band: Band, width: int, colour: bool) -> str:
    # Imported here: only who shows a table pays for it.
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    on = band.on
    title = f"{on.board}, core {on.core_version}, {on.sketch}, on {on.kind} {on.serial_number}"
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("arena B", justify="right")
    for heading in ("by the data", "here", "above", "canary", ""):
        grid.add_column(heading, overflow="fold")
    for row in band.rows:
        found, shade = _outcome(row)
        says = "contradicts the data" if row.contradiction else ""
        grid.add_row(
            f"{row.size_bytes:,}",
            row.planned.label.value,
            f"[{shade}]{escape(found)}[/]",
            escape(_above(band, row)),
            escape(_canary(row.canary)),
            f"[{BAD}]{says}[/]" if says else "",
        )
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=colour, no_color=not colour).print(grid)
    lines = [printable(title), stream.getvalue().rstrip("\n"), *sentences(band)]
    return "\n".join(lines)


def _outcome(row: Row) -> tuple[str, str]:
    attempt = row.attempt
    if attempt.outcome is Outcome.NOT_LOADED:
        if row.inferred:
            return "loads (a smaller one does)", WARNING
        return "not loaded: beyond the runner's", WARNING
    if attempt.shortfall is not None:
        short = attempt.shortfall
        return (
            f"fails: {short.requested_bytes} B requested, {short.available_bytes} B available",
            BAD,
        )
    if attempt.said:
        return f"{attempt.outcome.value}: {printable(attempt.said, limit=80)}", BAD
    return attempt.outcome.value, GOOD if row.safe else WARNING


def _above(band: Band, row: Row) -> str:
    if not row.fits_ram:
        return "does not fit RAM"
    if row.reach_bytes:
        return f"reaches {row.reach_bytes:,} B into the reservation"
    if not band.upper.reserves:
        return "this board reserves nothing"
    return f"{band.upper.largest_bytes - row.size_bytes:,} B below the reservation"


def _canary(result: CanaryResult | None) -> str:
    if result is None:
        return "-"
    if result.findings:
        signs = "1 sign" if len(result.findings) == 1 else f"{len(result.findings)} signs"
        return f"{signs} of an overlap"
    return "nothing found"


def sentences(band: Band) -> list[str]:
    """What the table cannot say: how each side is known, and every contradiction with both."""
    lower, upper, plan = band.lower, band.upper, band.plan
    out = []
    if lower.smallest_bytes is None:
        out.append(f"no arena up to {lower.limit_bytes:,} B works")
    else:
        out.append(
            f"smallest that works: {lower.smallest_bytes:,} B, one byte less does not (measured,"
            f" {lower.loads} loads, {_flashes(band.flashes)})"
        )
    if upper.reserves:
        out.append(
            f"largest whose globals do not reach the reservation: {upper.largest_bytes:,} B"
            f" (computed from {upper.basis}: {upper.globals_bytes:,} B of globals with"
            f" {upper.pool_bytes:,} B of arena, {upper.room_bytes:,} B of room beside"
            f" {upper.stack_bytes:,} B of stack and {upper.heap_bytes:,} B of heap)"
        )
    else:
        out.append("this board reserves nothing: the linker itself bounds the arena above")
    for row in band.rows:
        if row.reach_bytes:
            out.append(
                f"{row.size_bytes:,} B: globals reach {upper.globals_at(row.size_bytes):,} B, past"
                f" the reservation at {upper.room_bytes:,} B (computed)"
            )
        if row.canary is not None:
            out += _told(row.canary)
    if plan.shipped_differs:
        out.append(
            f"the sketch under test ships {plan.shipped_bytes:,} B; the data says"
            f" {plan.data_shipped_bytes:,} B was shipped"
        )
    out += _contradictions(band)
    return [printable(line, limit=1000) for line in out]


def _flashes(count: int) -> str:
    return "1 flash" if count == 1 else f"{count} flashes"


def _told(result: CanaryResult) -> list[str]:
    size = f"canary at {result.size_bytes:,} B"
    printed = " / ".join(result.printed[-2:])
    seen = result.sighting
    if not result.findings:
        out = [f"{size}: no sign of an overlap in this run; it printed {printed!r}"]
    else:
        out = [f"{size}: {finding}" for finding in result.findings]
        if seen is not None:
            out.append(f"{size}: it ran all the same and printed {printed!r}: dangerous, not safe")
    if seen is not None and seen.stack_bytes + seen.heap_bytes:
        out.append(
            f"{size}: never written in this run: {seen.stack_unused_bytes:,} B of"
            f" {seen.stack_bytes:,} B of free stack, {seen.heap_unused_bytes:,} B of"
            f" {seen.heap_bytes:,} B of free heap"
        )
    return out


def _contradictions(band: Band) -> list[str]:
    if not band.contradictions:
        return []
    measured = band.plan.standing is Standing.MEASURED
    standing = "measured" if measured else "only reported: shown, and fails nothing"
    on = band.on
    here = f"{band.when}, on {on.kind} {on.serial_number}, library {on.library}, {on.exporter}"
    return [
        *(f"contradiction: {each}" for each in band.contradictions),
        f"  the data says ({standing}): {band.plan.source}",
        f"  measured here: {here}",
    ]


def as_json(band: Band) -> dict[str, object]:
    """The band as plain data, sizes in bytes."""
    upper, lower = band.upper, band.lower
    return {
        "board": band.on.board,
        "core_version": band.on.core_version,
        "sketch": band.on.sketch,
        "when": band.when,
        "on": {
            "serial_number": band.on.serial_number,
            "kind": band.on.kind,
            "stand_in": band.on.stand_in,
            "library": band.on.library,
            "exporter": band.on.exporter,
        },
        "data": {
            "standing": band.plan.standing.value if band.plan.standing else None,
            "source": band.plan.source,
            "shipped_bytes": band.plan.data_shipped_bytes,
        },
        "shipped_bytes": band.plan.shipped_bytes,
        "lower": {
            "smallest_bytes": lower.smallest_bytes,
            "limit_bytes": lower.limit_bytes,
            "loads": lower.loads,
            "how": "measured",
        },
        "upper": {
            "reserves": upper.reserves,
            "largest_bytes": upper.largest_bytes,
            "globals_bytes": upper.globals_bytes,
            "at_arena_bytes": upper.pool_bytes,
            "room_bytes": upper.room_bytes,
            "stack_bytes": upper.stack_bytes,
            "heap_bytes": upper.heap_bytes,
            "basis": upper.basis,
            "how": "computed",
        },
        "flashes": band.flashes,
        "canary_flashes": band.canary_flashes,
        "sizes": [_row_json(row) for row in band.rows],
        "contradictions": list(band.contradictions),
        "exit_code": band.exit_code,
    }


def _row_json(row: Row) -> dict[str, object]:
    short = row.attempt.shortfall
    return {
        "size_bytes": row.size_bytes,
        "label": row.planned.label.value,
        "expected": {True: "works", False: "fails", None: None}[row.planned.works],
        "outcome": row.attempt.outcome.value,
        "loads": row.loads,
        "used_bytes": row.attempt.used_bytes,
        "said": row.attempt.said,
        "requested_bytes": short.requested_bytes if short else None,
        "available_bytes": short.available_bytes if short else None,
        "reach_bytes": row.reach_bytes,
        "fits_ram": row.fits_ram,
        "contradiction": row.contradiction,
        "canary": None
        if row.canary is None
        else {
            "findings": list(row.canary.findings),
            "overlap_bytes": row.canary.overlap_bytes,
            "printed": list(row.canary.printed),
            "silent": row.canary.silent,
        },
    }
