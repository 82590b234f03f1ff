"""The project's documents, and what in them can be checked: commands, links, names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def documents() -> tuple[Path, ...]:
    """Every Markdown file that people read."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return (*found, *(ROOT / f"{name}/README.md" for name in ("boards", "sketches", "tests")))


def text_of(name: str) -> str:
    """A document by its name relative to the project."""
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The content of every fenced block of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """The commands of a shell block, one a line, comments left out."""
    bare = (re.sub(r"(?:^|\s+)#.*", "", line).strip() for line in block.splitlines())
    return [line for line in bare if line]


def links(text: str) -> Iterator[tuple[str, str]]:
    """File and anchor of every relative link, either of which may be empty."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor


def anchors(text: str) -> set[str]:
    """What a link can point at inside a document, by GitHub's rule."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Cells of the first table below the section ``heading``, its own heading left out."""
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows: list[list[str]] = []
    for line in lines[2:]:
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows
