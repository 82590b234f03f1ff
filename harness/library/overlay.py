"""A stand-in for a checkout, in a folder of the bench's own, for a script that writes beside it.

What goes into the library is copied, so that whatever writes there writes to the copy; everything
else is a link, so that a newer script finds what it reads.  It has a git folder of its own, with
the checkout's commit and index and a pointer to its objects: the script asks git for the commit
and for changes, and fails without an answer.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import BenchError, ToolError
from harness.library.checkout import GENERATED, SCHEMA_HEADERS, Checkout, git
from harness.storage.digest import TreeFile

OWN_SCHEMA_HEADERS = f"cmake-out/{SCHEMA_HEADERS}"
"""Where the script looks first for generated schema headers."""


def lay_overlay(checkout: Checkout, files: tuple[TreeFile, ...], target: Path) -> None:
    """Make ``target`` look like ``checkout``, with ``files`` copied.

    Raises :class:`OSError` when it cannot be written and :class:`ToolError` when git cannot read
    the checkout.
    """
    real = {checkout.path / part for part in checkout.parts}
    if checkout.schema_headers is None:
        real.add(checkout.path / OWN_SCHEMA_HEADERS)
    above = {parent for part in real for parent in part.parents}
    _link_beside(checkout.path, target, real, above)
    for each in files:
        copy = target / each.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(each.path, copy)
        copy.chmod(0o755 if each.stat.st_mode & 0o100 else 0o644)
    _lay_git(checkout, target / ".git")


@contextmanager
def plain_path(overlay: Path) -> Iterator[Path]:
    """Another path to ``overlay`` for the length of the block, without ``test`` anywhere in it.

    The script removes every ``*test*`` source it made, and matches that against whole paths: under
    a folder such as ``/home/tester`` it would remove its own kernels, and report success.  Raises
    :class:`BenchError` where no temporary folder can hold such a path.
    """
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        try:
            folder = Path(tempfile.mkdtemp(prefix="hil-", dir=base))
        except OSError:
            continue
        try:
            link = folder / overlay.name
            if "test" not in str(link):
                link.symlink_to(overlay)
                yield link
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    raise BenchError(
        "no temporary folder can be written whose path is free of the word 'test'",
        remedy="set TMPDIR to one: the library script would remove its own sources below any other",
    )


def _link_beside(source: Path, target: Path, real: set[Path], above: set[Path]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for item in source.iterdir() if source.is_dir() else ():
        if item in real or item.name in GENERATED:
            continue
        if item in above:
            _link_beside(item, target / item.name, real, above)
            _link_history(item, target / item.name)
        else:
            (target / item.name).symlink_to(item)


def _link_history(source: Path, target: Path) -> None:
    """Let git answer for a vendored repository, too: the script records CMSIS-NN's commit."""
    history = source / ".git"
    if history.is_dir():
        (target / ".git").symlink_to(history)
    elif history.is_file():
        # A submodule's pointer is relative to where it lies.
        (folder,) = _git_paths(source, ".")
        (target / ".git").write_text(f"gitdir: {folder}\n", encoding="utf-8")


def _lay_git(checkout: Checkout, folder: Path) -> None:
    (folder / "objects/info").mkdir(parents=True)
    (folder / "refs").mkdir()
    head = checkout.commit or "ref: refs/heads/none"
    (folder / "HEAD").write_text(head + "\n", encoding="utf-8")
    sha256 = checkout.commit is not None and len(checkout.commit) == 64
    (folder / "config").write_text(
        "[core]\n\tbare = false\n"
        + (
            "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
            if sha256
            else "\trepositoryformatversion = 0\n"
        ),
        encoding="utf-8",
    )
    if checkout.commit is None:
        return
    objects, index = _git_paths(checkout.path, "objects", "index")
    (folder / "objects/info/alternates").write_text(f"{objects}\n", encoding="utf-8")
    if any(index.parent.glob("sharedindex.*")):
        # A split index is of no use without its other half; one made from the commit will do.
        git(folder.parent, "read-tree", "HEAD")
    elif index.is_file():
        shutil.copyfile(index, folder / "index")


def _git_paths(checkout: Path, *names: str) -> tuple[Path, ...]:
    arguments = [word for name in names for word in ("--git-path", name)]
    done = git(checkout, "rev-parse", "--path-format=absolute", *arguments)
    found = tuple(Path(line) for line in done.stdout.splitlines())
    if not done.ok or len(found) != len(names):
        raise ToolError(
            f"git cannot say where the objects of {str(checkout)!r} are",
            remedy="use git 2.31 or newer, and run 'git status' in the checkout",
            evidence=done.tail(),
        )
    return found
