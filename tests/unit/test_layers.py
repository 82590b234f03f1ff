"""Imports point one way: a module uses its own layer and those below it, never one above.

The layers are data; a new module finds its place by the longest name that fits it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parents[2] / "harness"

LAYERS: Sequence[tuple[str, ...]] = (
    ("errors", "clock", "guard"),
    ("paths", "process", "heartbeat"),
    ("storage",),
    ("boards",),
    ("machine",),
    ("serial",),
    ("autopsy",),
    ("emulator",),
    ("backdoor",),
    ("library",),
    ("model",),
    ("preflight",),
    ("arduino",),
    ("bench",),
    ("runner",),
    ("desk",),
    ("report",),
    ("machine.probes", "machine.doctor"),
    ("pipeline",),
    ("firmware_ahead", "arena"),
    ("pytest_bench",),
    ("pytest_plugin",),
    ("evidence",),
    (
        "machine.command",
        "storage.command",
        "boards.command",
        "emulator.command",
        "preflight.command",
    ),
    ("bench.command", "arena.command", "evidence.command", "autopsy.command"),
    ("arduino.command", "arduino.core_command", "suite_command"),
    ("cli",),
)
"""Bottom to top.  What a package has for people stands above it: its command, the doctor."""

ONLY_IN: Mapping[str, tuple[str, ...]] = {
    # One module starts processes and reaps them, one reads clocks.
    "subprocess": ("process",),
    "time": ("clock",),
    # Importing these takes seconds, and only an export needs them.
    "torch": ("model",),
    "torchao": ("model",),
    "torchgen": ("model",),
    # What a run is shown with is loaded by nobody who shows nothing.
    "allure": ("report.allure_results",),
    "allure_commons": ("report.allure_results",),
    "rich": ("report.text", "arena.text"),
    # Who has this package installed pays for the plugin in every pytest run.
    "pytest": (
        "pytest_plugin",
        "pytest_bench",
        "report.pytest_verdicts",
        "report.allure_results",
        "report.junit_results",
        "suite_command",
        "evidence.replay_run",
    ),
}
"""Modules and packages that may import each of these; nobody else may."""

IN_FUNCTIONS_ONLY = ("torch", "torchao", "torchgen", "executorch", "allure", "rich")


def modules(root: Path = HARNESS) -> dict[str, ast.Module]:
    """Every module's tree by its name below the package; a package is its ``__init__``."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(tree: ast.AST, *, depth: int = 0) -> Iterator[tuple[str, int]]:
    """What is imported, as dotted names, with the number of functions around it.

    What stands under ``if TYPE_CHECKING`` is no import at run time.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, depth) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((f"{node.module}.{alias.name}", depth) for alias in node.names)
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports(node, depth=depth + inner)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def layer_of(name: str) -> int:
    fitting = [
        (len(each), number)
        for number, layer in enumerate(LAYERS)
        for each in layer
        if within(name, each)
    ]
    assert fitting, f"harness.{name} stands in no layer: add it to LAYERS"
    return max(fitting)[1]


def upward(trees: Mapping[str, ast.Module]) -> list[str]:
    """Every import that points up, as a sentence."""
    found = []
    for name, tree in trees.items():
        for imported, _ in imports(tree) if name else ():
            if not within(imported, "harness"):
                continue
            # "harness.clock.pause" is a name in a module, "harness.storage.cache" a module.
            target = imported.removeprefix("harness").removeprefix(".")
            while target and target not in trees:
                target = target.rpartition(".")[0]
            if target and layer_of(target) > layer_of(name):
                found.append(f"harness.{name} imports harness.{target}, which stands above it")
    return found


def misplaced(trees: Mapping[str, ast.Module]) -> list[str]:
    """Every import of a module that is kept to a few, from elsewhere or too early."""
    found = []
    for name, tree in trees.items():
        for imported, depth in imports(tree):
            top = imported.partition(".")[0]
            allowed = ONLY_IN.get(top)
            if allowed is not None and not any(within(name, each) for each in allowed):
                found.append(f"harness.{name} imports {top}, which only {allowed} may")
            if top in IN_FUNCTIONS_ONLY and depth == 0:
                found.append(f"harness.{name} imports {top} outside a function")
    return found


def test_no_import_points_up() -> None:
    assert upward(modules()) == []


def test_what_is_kept_to_a_few_modules_stays_there() -> None:
    assert misplaced(modules()) == []


def test_every_layer_exists() -> None:
    names = modules()
    for each in (name for layer in LAYERS for name in layer):
        assert any(within(name, each) for name in names), each


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("clock", "from harness.pipeline import Bench", "harness.clock imports harness.pipeline"),
        ("storage.cache", "import harness.cli", "harness.storage.cache imports harness.cli"),
        ("serial.port", "def f():\n from harness.desk import Desk", "imports harness.desk"),
        ("boards.board", "from harness.boards import command", "imports harness.boards.command"),
    ],
)
def test_an_import_that_points_up_is_seen(name: str, source: str, complaint: str) -> None:
    (found,) = upward({**modules(), name: ast.parse(source)})
    assert complaint in found


@pytest.mark.parametrize(
    ("name", "source", "count"),
    [
        ("clock", "import subprocess", 1),
        ("desk", "from time import sleep", 1),
        ("model.export", "import torch", 1),
        ("desk", "import torch.nn", 2),
        ("model.export", "def f():\n import torch", 0),
        ("desk", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n import subprocess", 0),
    ],
)
def test_a_module_in_the_wrong_place_is_seen(name: str, source: str, count: int) -> None:
    assert len(misplaced({name: ast.parse(source)})) == count


def test_a_module_without_a_layer_is_seen() -> None:
    with pytest.raises(AssertionError, match=r"harness\.unheard_of stands in no layer"):
        layer_of("unheard_of")
