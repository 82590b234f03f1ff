"""What JUnit's results are told of the whole run; registered only in a run with a board."""

from __future__ import annotations

from collections.abc import Callable

import pytest

PLUGIN = "hil-junit"


@pytest.fixture(scope="session", autouse=True)
def hil_run_in_junit(
    pytestconfig: pytest.Config, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Board, lane, core and stand-in as properties of the suite."""
    hooks = pytestconfig.pluginmanager.get_plugin("hil-verdicts")
    assert hooks is not None, "the hooks are registered together with this"
    for key, value in hooks.about().items():
        record_testsuite_property(f"hil_{key}", value)
