"""The user's configuration: which setting wins, and what a wrong file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.machine.config import how_to_configure, load_config


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file of the test's own, not there yet."""
    path = tmp_path / "config" / "config.toml"
    path.parent.mkdir()
    monkeypatch.setenv("HIL_CONFIG", str(path))
    monkeypatch.delenv("HIL_EXECUTORCH", raising=False)
    return path


def test_nothing_set(file: Path) -> None:
    assert load_config().executorch is None
    assert str(file) in how_to_configure()


def test_the_nearest_wins(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('executorch = "/from/file"\n', encoding="utf-8")
    config = load_config()
    assert (config.executorch, config.executorch_source) == (Path("/from/file"), str(file))
    monkeypatch.setenv("HIL_EXECUTORCH", "/from/variable")
    config = load_config()
    assert (config.executorch, config.executorch_source) == (
        Path("/from/variable"),
        "HIL_EXECUTORCH",
    )
    config = load_config(executorch=Path("/from/flag"))
    assert (config.executorch, config.executorch_source) == (Path("/from/flag"), "--executorch")


def test_an_empty_variable_is_not_set(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_EXECUTORCH", "")
    assert not file.exists()
    assert load_config().executorch is None


def test_relative_paths_start_where_they_were_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file.write_text('executorch = "../here"\n', encoding="utf-8")
    assert load_config().executorch == tmp_path / "here"
    monkeypatch.chdir(tmp_path)
    assert load_config(executorch=Path("there")).executorch == tmp_path / "there"


def test_home_is_expanded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    file.write_text('executorch = "~/executorch"\n', encoding="utf-8")
    assert load_config().executorch == Path("/home/somebody/executorch")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('exectorch = "x"\n', r"config\.toml:1: key 'exectorch' is not known; did you mean 'exec"),
        ('\nboard = "x"\n', r"config\.toml:2: key 'board' is not known$"),
        ("executorch = 3\n", r"config\.toml:1: key 'executorch' is 3"),
        ('executorch = ""\n', r"key 'executorch' is ''"),
        ("executorch = \n", r"this is not TOML"),
    ],
)
def test_a_wrong_file_is_said_even_where_a_flag_overrides_it(
    file: Path, text: str, said: str
) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=said) as caught:
        load_config(executorch=Path("/flag"))
    assert caught.value.remedy


def test_a_file_that_is_no_text_is_said(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot read the configuration"):
        load_config()


def test_real_tools_are_named_in_the_file(file: Path) -> None:
    file.write_text('remoteocd = "tools/remoteocd"\narduino_router = "/r"\n', encoding="utf-8")
    config = load_config(executorch=Path("/from/flag"))
    assert config.remoteocd == file.parent / "tools" / "remoteocd"
    assert (config.arduino_router, config.adb, config.router_bridge) == (Path("/r"), None, None)
    assert config.executorch == Path("/from/flag")
