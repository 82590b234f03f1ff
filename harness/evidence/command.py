"""``hil replay`` and ``hil pack``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.errors import UsageError
from harness.evidence.plain import Damaged
from harness.evidence.run_folder import RUN, open_run
from harness.report.run_record import BEGUN
from harness.report.text import printable
from harness.report.verdict import EXIT_FAILED, EXIT_PASSED
from harness.storage.unzip import Archive, ArchiveDamaged, Limits, unzip

LIMITS = Limits(total_bytes=2 * 1024 * 1024 * 1024, ratio=1100)
"""A transcript of one repeated line packs to a thousandth, which is as far as the format goes."""


def add_replay_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil replay`` into the command line."""
    parser = commands.add_parser(
        "replay",
        help="judge a finished run again, without a board",
        description="Plays what the board said to the same cases and says what changed: exit code"
        " 0 when nothing did, 1 when a verdict did, 2 for what is no run, 3 for a damaged one.",
    )
    parser.add_argument("run", metavar="DIR|ZIP", help="folder of a run, or a zip of it")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--tests", metavar="PATH", help="the cases, where they are not those of the suite"
    )
    parser.set_defaults(func=run_replay)


def run_replay(arguments: argparse.Namespace) -> int:
    """Replay and print the comparison."""
    tests = None if arguments.tests is None else Path(arguments.tests)
    if tests is not None and not tests.exists():
        raise UsageError(
            f"there are no cases at {str(tests)!r}", remedy="give --tests a file or folder"
        )
    with _opened(Path(arguments.run)) as folder:
        run = open_run(folder)
        # Imported here: pytest and the whole bench, which a wrong folder need not wait for.
        from harness.evidence.replay_run import replay

        result = replay(run, tests=None if tests is None else tests.resolve())
    if arguments.json:
        print(json.dumps(result.as_json(), indent=1))
    else:
        print("\n".join(result.lines(arguments.run)))
    return EXIT_FAILED if result.of("changed") else EXIT_PASSED


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """The run's folder; a zip is unpacked for as long as it is looked at."""
    if path.is_dir():
        yield path
        return
    if not path.is_file():
        raise UsageError(
            f"there is no run at {str(path)!r}",
            remedy="give the folder that 'hil test --out' named, or a zip of it",
        )
    archive = Archive(path, "the packed run", "pack it with 'hil pack'")
    with TemporaryDirectory(prefix="hil-replay") as scratch:
        target = Path(scratch) / "run"
        target.mkdir()
        try:
            unzip(archive, target, limits=LIMITS)
        except ArchiveDamaged as error:
            raise Damaged(error.message, remedy="have it sent again") from error
        yield _root(archive, target)


def _root(archive: Archive, folder: Path) -> Path:
    """The folder of the run: the archive's own, or the one folder that it holds."""
    candidates = [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]
    found = [each for each in candidates if any((each / name).is_file() for name in (RUN, BEGUN))]
    if len(found) != 1:
        number = f"{len(found)} runs" if found else "no run"
        raise archive.refused(f"holds {number}", "pack one run with 'hil pack'")
    return found[0]


def add_pack_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Hook ``hil pack`` into the command line."""
    parser = commands.add_parser(
        "pack",
        help="zip a finished run to send it, without names of people and machines",
        description="Writes a zip of the run in which user names, home folders, host names and"
        " serial numbers are replaced; the folder itself is not touched.",
    )
    parser.add_argument("run", metavar="DIR", help="folder of a run")
    parser.add_argument("--out", metavar="FILE.zip", help="default: beside the folder")
    parser.add_argument(
        "--keep-serials", action="store_true", help="leave serial numbers of boards as they are"
    )
    parser.set_defaults(func=run_pack)


def run_pack(arguments: argparse.Namespace) -> int:
    """Pack and say what was taken out."""
    from harness.evidence.pack import pack

    folder = Path(arguments.run)
    out = Path(arguments.out) if arguments.out else folder.absolute().with_suffix(".zip")
    packed = pack(folder, out, keep_serials=arguments.keep_serials)
    for line in packed.lines():
        print(printable(line, limit=1000))
    return EXIT_PASSED
