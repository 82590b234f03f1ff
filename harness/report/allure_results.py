"""What Allure is told, where it is asked for: steps, attachments, and our verdict as its status.

Allure calls a test broken unless an assertion failed; here *failed* is a device that is wrong and
*broken* a fault, whatever exception brought it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from harness.report.text import printable
from harness.report.verdict import Kind, Verdict

_STATUS = {
    Kind.PASSED: "passed",
    Kind.FAILED: "failed",
    Kind.FAULT: "broken",
    Kind.SKIPPED: "skipped",
}


def is_active(config: pytest.Config) -> bool:
    """Whether this run writes Allure results."""
    return bool(config.getoption("allure_report_dir", None))


def step_maker(config: pytest.Config) -> Callable[[str], AbstractContextManager[None]]:
    """What a stage of the pipeline is wrapped in: one of Allure's steps, or nothing."""
    if not is_active(config):
        return lambda name: nullcontext()  # noqa: ARG005

    def step(name: str) -> AbstractContextManager[None]:
        import allure

        context: AbstractContextManager[None] = allure.step(name)
        return context

    return step


def describe_run(config: pytest.Config, facts: Mapping[str, str]) -> None:
    """What the report's page shows of the whole run: Allure reads it beside its results."""
    folder = config.getoption("allure_report_dir", None)
    if not folder:
        return
    lines = (f"{key}={printable(value, limit=1000)}\n" for key, value in facts.items())
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "environment.properties").write_text("".join(lines), encoding="utf-8")


def tell(config: pytest.Config, verdict: Verdict, text: str, said: str = "") -> None:
    """Attach a diagnosis and the board's words to the current test, and set its status."""
    if not is_active(config):
        return
    import allure

    if verdict.kind is not Kind.SKIPPED:
        allure.attach(text, "diagnosis", allure.attachment_type.TEXT)
    if said:
        allure.attach(said, "serial output", allure.attachment_type.TEXT)
    listener = config.pluginmanager.get_plugin("allure_listener")
    # Its listener has no public way to be told: without one its own status stays.
    logger = getattr(listener, "allure_logger", None)
    result = logger.get_test(None) if logger is not None else None
    if result is not None and verdict.diagnosis is not None:
        from allure_commons.model2 import StatusDetails

        result.status = _STATUS[verdict.kind]
        result.statusDetails = StatusDetails(message=verdict.diagnosis.symptom, trace=text)
