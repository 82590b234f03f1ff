"""Folders of one core version: what is installed, what shadows it, how a stand-in is laid out."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from harness.arduino import core_home
from harness.arduino.cli import ArduinoCli
from harness.arduino.core_home import (
    PACKAGE_INDEX,
    CoreHome,
    find_adb,
    installed_versions,
    open_core,
    real_home,
)
from harness.boards.board import Board, find_board
from harness.errors import BenchError, CapabilityMissing, ToolError, UsageError

VERSION = "0.90.0"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a configuration of the test's own; laying folders out needs no arduino-cli."""
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HIL_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setattr(core_home, "find_arduino_cli", lambda: Path("/opt/arduino-cli"))
    return tmp_path


@pytest.fixture
def unoq() -> Board:
    return find_board("unoq")


def installed(home: Path, version: str = VERSION) -> Path:
    """What arduino-cli leaves of an installed core, as far as the bench looks at it."""
    platform = home / "data" / "packages" / "arduino" / "hardware" / "zephyr" / version
    platform.mkdir(parents=True)
    (platform / "boards.txt").write_text("unoq.name=Arduino UNO Q\n", encoding="utf-8")
    (platform / "platform.txt").write_text(f"version={version}\n", encoding="utf-8")
    return platform


def real(board: Board) -> ArduinoCli:
    return open_core(board, board.core_version(VERSION), virtual=False)


def standin(board: Board, version: str = VERSION) -> ArduinoCli:
    return open_core(board, board.core_version(version), virtual=True)


def core_of(cli: ArduinoCli) -> CoreHome:
    assert cli.core is not None
    return cli.core


def test_a_core_that_is_not_installed_is_a_missing_capability(unoq: Board) -> None:
    with pytest.raises(
        CapabilityMissing, match=r"^Arduino core arduino:zephyr 0\.90\.0 is not installed for the"
    ) as got:
        real(unoq)
    assert got.value.remedy == "hil core install 0.90.0"
    assert not real_home(unoq.platform, VERSION).exists(), "asking must make nothing"


def test_an_installed_core_is_opened_in_its_own_folder(unoq: Board) -> None:
    home = real_home(unoq.platform, VERSION)
    platform = installed(home)
    cli = real(unoq)
    core = core_of(cli)
    assert (core.version, core.virtual, core.home) == (VERSION, False, home)
    assert core.platform_path == platform
    assert PACKAGE_INDEX in cli.config.read_text(encoding="utf-8")
    assert home.name == "arduino-zephyr-0.90.0"
    # The indexes are arduino-cli's own there: seeded ones would hide what it installed.
    assert not (home / "data" / "package_index.json").exists()


def test_what_an_image_depends_on_changes_the_key(unoq: Board) -> None:
    home = real_home(unoq.platform, VERSION)
    platform = installed(home)
    keys = [core_of(real(unoq)).image_key]
    (platform / "platform.txt").write_text("version=0.90.0\nchanged=1\n", encoding="utf-8")
    keys.append(core_of(real(unoq)).image_key)
    (home / "data" / "packages" / "zephyr" / "tools" / "gcc" / "2").mkdir(parents=True)
    keys.append(core_of(real(unoq)).image_key)
    library = home / "user" / "libraries" / "Arduino_RouterBridge"
    library.mkdir(parents=True)
    (library / "bridge.h").write_text("x", encoding="utf-8")
    keys.append(core_of(real(unoq)).image_key)
    assert len(set(keys)) == 4
    assert core_of(real(unoq)).image_key == keys[-1]


@pytest.mark.parametrize("also", [True, False], ids=["beside-it", "in-its-place"])
def test_another_version_that_shadows_the_expected_one_is_named(unoq: Board, also: bool) -> None:
    home = real_home(unoq.platform, VERSION)
    installed(home, "0.91.0")
    if also:
        installed(home)
    with pytest.raises(ToolError, match=r"zephyr 0\.90\.0 holds version 0\.91\.0") as got:
        real(unoq)
    assert "hil core install 0.90.0" in got.value.remedy
    assert got.value.evidence


def test_a_stand_in_is_laid_out_as_a_managed_platform(unoq: Board) -> None:
    cli = standin(unoq)
    core = core_of(cli)
    assert core.virtual
    assert installed_versions(cli.home, unoq.platform) == (VERSION,)
    tools = cli.home / "data" / "packages" / "arduino" / "tools"
    for name in ("remoteocd", "zephyr-sketch-tool", "zephyr-check-size"):
        (program,) = tools.glob(f"{name}/*/{name}")
        assert program.stat().st_mode & 0o111
    library = cli.home / "user" / "libraries" / "Arduino_RouterBridge"
    assert (library / "library.properties").is_file()
    assert "additional_urls" not in cli.config.read_text(encoding="utf-8")


def test_two_versions_exist_side_by_side(unoq: Board) -> None:
    old, new = core_of(standin(unoq, "0.55.2")), core_of(standin(unoq, "0.90.0"))
    assert old.home != new.home
    assert (old.platform_path.name, new.platform_path.name) == ("0.55.2", "0.90.0")
    assert old.image_key != new.image_key
    assert old.objects_key == new.objects_key, "one compile of the library serves both"
    assert old.build_name != new.build_name


def test_an_unchanged_stand_in_is_not_written_again(unoq: Board) -> None:
    cli = standin(unoq)
    path = core_of(cli).platform_path / "platform.txt"
    before = path.stat()
    standin(unoq)
    (cli.home / "layout.json").write_text("{}", encoding="utf-8")
    standin(unoq)
    after = path.stat()
    # arduino-cli wipes a build path that is older than the platform's text.
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize(
    "lost",
    [
        "data/packages/arduino/hardware/zephyr/0.90.0/variants/unoq/build-static.ld",
        "user/libraries/Arduino_RouterBridge",
        "arduino-cli.yaml",
    ],
)
def test_what_a_stand_in_lost_is_put_back(unoq: Board, lost: str) -> None:
    path = standin(unoq).home / lost
    path.unlink()
    standin(unoq)
    assert path.exists()


def test_what_does_not_belong_to_a_stand_in_goes(unoq: Board) -> None:
    cli = standin(unoq)
    stray = core_of(cli).platform_path / "variants" / "unoq" / "stray.cpp"
    stray.write_text("int x;", encoding="utf-8")
    (cli.home / "layout.json").unlink()
    standin(unoq)
    assert not stray.exists()


def test_a_managed_core_beside_the_stand_in_is_named(unoq: Board) -> None:
    installed(standin(unoq).home, "0.99.0")
    with pytest.raises(ToolError, match=r"zephyr 0\.90\.0 holds version 0\.99\.0"):
        standin(unoq)


def test_real_parts_that_are_configured_run_in_the_stand_ins_place(
    unoq: Board, places: Path
) -> None:
    bridge = places / "lib" / "Arduino_RouterBridge"
    bridge.mkdir(parents=True)
    (bridge / "library.properties").write_text("name=Arduino_RouterBridge\n", encoding="utf-8")
    before = core_of(standin(unoq)).image_key
    (places / "config.toml").write_text(
        'remoteocd = "/opt/remoteocd"\nrouter_bridge = "lib/Arduino_RouterBridge"\n',
        encoding="utf-8",
    )
    cli = standin(unoq)
    (program,) = (cli.home / "data" / "packages" / "arduino" / "tools").glob("remoteocd/*/*")
    assert program.readlink() == Path("/opt/remoteocd")
    assert (cli.home / "user" / "libraries" / bridge.name).readlink() == bridge
    assert core_of(cli).image_key != before
    (places / "config.toml").unlink()
    (program,) = (standin(unoq).home / "data" / "packages" / "arduino" / "tools").glob(
        "remoteocd/*/*"
    )
    assert not program.is_symlink()
    assert core_of(standin(unoq)).image_key == before


def test_a_configured_library_that_is_none_is_said(unoq: Board, places: Path) -> None:
    (places / "config.toml").write_text('router_bridge = "nowhere"\n', encoding="utf-8")
    with pytest.raises(UsageError, match=r"router_bridge '.*nowhere' is no Arduino library"):
        standin(unoq)


def test_a_board_of_the_bench_has_no_stand_in() -> None:
    board = find_board("m33")
    with pytest.raises(UsageError, match="board 'm33' has no stand-in for core version"):
        open_core(board, board.default_core_version, virtual=True)


def test_a_size_recipe_that_nobody_knows_is_said(unoq: Board) -> None:
    core = dataclasses.replace(unoq.core_version(VERSION), size_recipe="scales")
    with pytest.raises(UsageError, match=r"has no stand-in for core version '0\.90\.0'"):
        open_core(unoq, core, virtual=True)


def test_a_folder_that_cannot_be_written_is_the_benchs_fault(unoq: Board, places: Path) -> None:
    home = core_home.standin_home(VERSION)
    home.parent.mkdir(parents=True)
    home.write_text("a file in the way", encoding="utf-8")
    with pytest.raises(BenchError, match=r"cannot lay out the stand-in of core 0\.90\.0"):
        standin(unoq)
    assert places.is_dir()


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_adb_is_the_configured_one_then_the_cores_then_the_one_on_path(
    unoq: Board, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = real_home(unoq.platform, VERSION)
    installed(home)
    cli = real(unoq)
    monkeypatch.setenv("PATH", str(places / "empty"))
    with pytest.raises(CapabilityMissing, match="there is no adb") as got:
        find_adb(cli)
    assert "hil core install" in got.value.remedy
    on_path = program(places / "path" / "adb")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_adb(cli) == on_path
    of_core = program(home / "data" / "packages" / "arduino" / "tools" / "adb" / "32.0.0" / "adb")
    assert find_adb(cli) == of_core
    named = program(places / "own" / "adb")
    (places / "config.toml").write_text('adb = "own/adb"\n', encoding="utf-8")
    assert find_adb(cli) == named
    named.unlink()
    with pytest.raises(CapabilityMissing, match=r"the configured adb '.*own/adb' does not exist"):
        find_adb(cli)


def test_a_stand_ins_boards_are_seen_by_its_own_adb_only(
    unoq: Board, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(places / "own" / "adb")
    (places / "config.toml").write_text('adb = "own/adb"\n', encoding="utf-8")
    cli = standin(unoq)
    own = program(cli.home / "data" / "packages" / "arduino" / "tools" / "adb" / "9" / "adb")
    assert find_adb(cli) == own
    shutil.rmtree(cli.home / "data" / "packages" / "arduino" / "tools" / "adb")
    monkeypatch.setenv("PATH", str(places / "own"))
    with pytest.raises(CapabilityMissing, match="there is no adb"):
        find_adb(cli)
