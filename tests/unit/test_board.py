from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.board import Lane, find_board, load_board, load_boards
from harness.boards.boards_txt import boards_txt, boards_txt_path
from harness.errors import UsageError
from harness.paths import boards_dir

M33 = (boards_dir() / "m33.toml").read_text(encoding="utf-8")


def broken(tmp_path: Path, old: str, new: str) -> UsageError:
    assert M33.count(old) >= 1, f"{old!r} is not in m33.toml"
    path = tmp_path / "m33.toml"
    path.write_text(M33.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_board(path)
    return caught.value


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(M33.splitlines(), 1) if line.startswith(text))


def test_every_board_file_is_valid_and_every_tier_is_there() -> None:
    boards = load_boards()
    assert {board.name for board in boards} >= {"host", "m3", "m4f", "m7", "m33", "m55"}
    assert {board.tier.value for board in boards} >= {"scalar", "dsp", "mve"}
    assert boards[0].lane is Lane.HOST


def test_no_two_boards_share_a_usb_identity_or_fqbn() -> None:
    boards = load_boards()
    assert len({(board.usb.vid, board.usb.pid) for board in boards}) == len(boards)
    assert len({board.fqbn for board in boards}) == len(boards)


def test_boards_txt_is_what_the_board_files_say() -> None:
    assert boards_txt_path().read_text(encoding="utf-8") == boards_txt(load_boards()), (
        "boards.txt has drifted: run python -m harness.boards.boards_txt"
    )


def test_drift_is_noticed(tmp_path: Path) -> None:
    for each in boards_dir().glob("*.toml"):
        (tmp_path / each.name).write_bytes(each.read_bytes())
    changed = tmp_path / "m33.toml"
    changed.write_text(M33.replace("0x0033", "0x0034"), encoding="utf-8")
    assert boards_txt(load_boards(tmp_path)) != boards_txt_path().read_text(encoding="utf-8")


def test_adding_a_board_is_adding_one_file(tmp_path: Path) -> None:
    text = M33.replace('name = "m33"', 'name = "mine"').replace("virtual:m33", "virtual:mine")
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert find_board("mine", tmp_path).fqbn == "hil:virtual:mine"
    assert "mine.build.mcu=cortex-m33" in boards_txt(load_boards(tmp_path))


def test_menu_options_of_an_fqbn_are_no_part_of_its_platform() -> None:
    assert find_board("unoq").platform == "arduino:zephyr"
    assert "link_mode=static" in find_board("unoq").fqbn


def test_unknown_board_names_the_close_one() -> None:
    with pytest.raises(UsageError, match=r"there is no board 'm34'; did you mean 'm3"):
        find_board("m34")


def test_misspelt_key_gives_file_line_key_and_the_close_one(tmp_path: Path) -> None:
    error = broken(tmp_path, "icount_shift =", "icount_shfit =")
    assert "m33.toml:" + str(line_of("icount_shift")) in error.message
    assert "'emulation.icount_shfit'" in error.message
    assert "did you mean 'icount_shift'?" in error.message


def test_unknown_extra_key_is_not_ignored(tmp_path: Path) -> None:
    error = broken(tmp_path, "baud = 115200", "baud = 115200\nparity = 'none'")
    assert "'serial.parity' is not known" in error.message


def test_wrong_unit_names_the_right_one(tmp_path: Path) -> None:
    error = broken(tmp_path, "flash_bytes = 4194304", "flash_bytes = 4194304\nstack_kb = 3")
    assert "'core_version.stack_kb' is in the wrong unit 'kb'; did you mean 'stack_bytes'?" in (
        error.message
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('lane = "emulated"', 'lane = "emulatd"', "did you mean 'emulated'?"),
        ('tier = "dsp"', "tier = 3", "give one of portable, scalar, dsp, mve"),
        ("flash_bytes = 4194304", 'flash_bytes = "4 MB"', "give a whole number without quotes"),
        ("flash_bytes = 4194304", "flash_bytes = 0", "give a number from 1"),
        ("flash_bytes = 4194304", "flash_bytes = true", "give a whole number"),
        ('vid = "0x1209"', 'vid = "1209"', "write it as 0x[0-9a-f]{4}"),
        ("resets_on_open = false", "resets_on_open = 0", "give true or false"),
        ('name = "m33"', 'name = "m34"', "make the two equal"),
        ('lane = "emulated"', 'lane = "host"', "remove [emulation]: nothing is emulated there"),
        (
            'upload_method = "hil"',
            'upload_method = "hil"\nreset_methods = ["opencd"]',
            "did you mean 'openocd'",
        ),
        ("stack_bytes = 32768", "stack_bytes = 32768\nsize_recipe = 3", "give a string"),
        (
            "shipped_bytes = 40960",
            'shipped_bytes = 40960\nstanding = "said"',
            "one of measured, reported",
        ),
        ("[usb]", "[usb", "correct the syntax"),
        ('title = "Emulated', 'titel = "Emulated', "correct or remove it"),
        ('core = "cortex-m33"', "", "add it"),
        ("notes = [", "notes = [1, ", "give a list of strings"),
    ],
)
def test_wrong_values_say_what_to_give(tmp_path: Path, old: str, new: str, says: str) -> None:
    error = broken(tmp_path, old, new)
    assert says in f"{error.message} {error.remedy}"


def test_binary_board_file_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "m33.toml"
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(UsageError, match="cannot read the board file"):
        load_board(path)


def test_unknown_core_version_lists_the_known() -> None:
    board = find_board("m33")
    with pytest.raises(UsageError) as caught:
        board.core_version("9.9.9")
    assert board.default_core_version.version in caught.value.remedy


def test_the_uno_q_has_what_its_path_needs() -> None:
    board = find_board("unoq")
    assert board.emulation is not None
    assert board.linux_side is not None
    assert [each.value for each in board.reset_methods] == ["openocd", "upload", "power"]
    for version in ("0.55.2", "0.90.0"):
        core = board.core_version(version)
        assert [each.name for each in core.libraries] == ["Arduino_RouterBridge"]
    older, newer = board.core_versions
    assert older.size_recipe != newer.size_recipe
    standings = [each.arena("KeywordSpotting") for each in (older, newer)]
    assert [each.standing.value for each in standings if each] == ["reported", "measured"]


def test_a_board_without_a_linux_side_has_none() -> None:
    board = find_board("m33")
    assert (board.linux_side, board.reset_methods) == (None, ())
    assert board.default_core_version.size_recipe == "size -A"
