"""``hil cache``: what the cache holds, and making room."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import UsageError
from harness.machine.config import KEEP_UNUSED_DAYS, load_config
from harness.paths import cache_dir
from harness.storage.prune import DAY_S, Kept, kept, prune, room, what_went


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil cache`` into the command line."""
    parser = commands.add_parser(
        "cache",
        help="show what the cache holds, or remove what was not used for long",
        description="Everything in the cache can be made again. A run removes once a day what was"
        f" not used for {KEEP_UNUSED_DAYS} days, or as many as keep_unused_days in the"
        " configuration says (0: never).",
    )
    parser.add_argument("--json", action="store_true", help="as data")
    parser.set_defaults(func=run)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    pruning = actions.add_parser("prune", help="remove what was not used for some days")
    pruning.add_argument(
        "--unused-for",
        metavar="DAYS",
        help="how long; without it as in the configuration. 0 is everything: while nothing runs",
    )
    pruning.add_argument("--dry-run", action="store_true", help="only say what would go")
    pruning.set_defaults(func=run_prune)


@dataclass(frozen=True)
class _Kind:
    name: str
    count: int
    nbytes: int
    unused_days: float


def run(arguments: argparse.Namespace) -> int:
    """Print what there is of each kind."""
    kinds = _by_kind(kept())
    if arguments.json:
        data = {
            "folder": str(cache_dir()),
            "kinds": [
                {
                    "kind": each.name,
                    "count": each.count,
                    "bytes": each.nbytes,
                    "longest_unused_days": round(each.unused_days, 2),
                }
                for each in kinds
            ],
        }
        print(json.dumps(data, indent=1))
        return 0
    print(f"cache: {cache_dir()}")
    for each in kinds:
        print(
            f"  {each.name:<12} {each.count:>5}  {room(each.nbytes):>9}"
            f"  longest unused: {each.unused_days:.0f} days"
        )
    print(f"  {'together':<12} {sum(e.count for e in kinds):>5}  {room(_total(kinds)):>9}")
    return 0


def run_prune(arguments: argparse.Namespace) -> int:
    """Remove, or with ``--dry-run`` say what would be removed."""
    days = _days(arguments.unused_for)
    if arguments.dry_run:
        found = kept(days)
        for each in found:
            print(f"  {each.kind}/{each.name}: {room(each.nbytes)}")
        print(f"would remove {what_went(found)} unused for {days:g} days")
        return 0
    print(f"removed {what_went(prune(days, progress=print))} unused for {days:g} days")
    return 0


def _days(named: str | None) -> float:
    if named is None:
        configured = load_config().keep_unused_days
        if configured == 0:
            raise UsageError(
                "the configuration says keep_unused_days = 0, which is for ever",
                remedy="give --unused-for DAYS",
            )
        return configured
    try:
        days = float(named)
    except ValueError:
        days = -1.0
    if not 0 <= days < 100_000:  # Not a number is refused by the comparison, too.
        raise UsageError(
            f"--unused-for {named!r} is no number of days", remedy="give a number, 0 for everything"
        )
    return days


def _by_kind(found: Iterable[Kept]) -> list[_Kind]:
    kinds: dict[str, list[Kept]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    return [
        _Kind(
            name,
            len(group),
            sum(each.nbytes for each in group),
            max(each.unused_s for each in group) / DAY_S,
        )
        for name, group in sorted(kinds.items())
    ]


def _total(kinds: Iterable[_Kind]) -> int:
    return sum(each.nbytes for each in kinds)
