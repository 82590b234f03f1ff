"""A stand-in from the outside: the adb script, an upload through it, and every misbehaviour.

Its chip is a native program here, so that nothing but a C compiler is needed; its Linux side,
route and port are those of the emulated one.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness import paths, process
from harness.boards.board import Board, find_board
from harness.clock import monotonic_s
from harness.emulator.client import PluggedBoard, plug_in, plugged_boards
from harness.emulator.reply import ChipState
from harness.errors import UsageError
from tests.emulated.rpc_firmware import CONFIG, build_native, native_image
from tests.plugged import open_port, wait_until

ADB = paths.boards_dir() / "standin" / "tools" / "adb"
OPENOCD = ("shell", "/opt/openocd/bin/openocd", "-s", "/opt/openocd", "-f", "openocd_gpiod.cfg")


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A sketch that speaks to the router, as an upload has it."""
    return native_image(build_native(tmp_path_factory.mktemp("firmware")))


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime folder of its own; every board in it must be gone afterwards, and is."""
    with TemporaryDirectory(prefix="hil") as folder:
        monkeypatch.setenv("HIL_RUN_DIR", folder)
        # The model's route, whatever this user has configured.
        monkeypatch.setenv("HIL_CONFIG", str(Path(folder) / "no-config.toml"))
        yield Path(folder)
        for each in plugged_boards():
            each.unplug()
        boards = Path(folder) / "boards"
        assert not boards.is_dir() or [each.name for each in boards.iterdir()] == [".lock"]


def native_uno_q(folder: Path) -> Board:
    """The Uno Q's data with a native chip."""
    text = (paths.boards_dir() / "unoq.toml").read_text()
    before, _, rest = text.partition("[emulation]")
    _, _, after = rest.partition("[linux_side]")
    (folder / "nativeq.toml").write_text(
        (before + "[linux_side]" + after)
        .replace('name = "unoq"', 'name = "nativeq"', 1)
        .replace('lane = "hardware"', 'lane = "host"', 1)
    )
    return find_board(str(folder / "nativeq.toml"))


Plug = Callable[[str], PluggedBoard]


@pytest.fixture
def plug(run_dir: Path, tmp_path: Path) -> Plug:
    """Plugs a stand-in in that misbehaves as a text says."""
    assert run_dir.is_dir()

    def plugged(behave: str) -> PluggedBoard:
        file = tmp_path / "behave.toml"
        file.write_text(behave)
        return plug_in(native_uno_q(tmp_path), lease_pid=os.getpid(), behave=file)

    return plugged


def adb(*words: str, timeout_s: float = 20) -> process.Completed:
    environment = {"HIL_RUN_DIR": os.environ["HIL_RUN_DIR"], "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-I", "-S", "-E", str(ADB), *words]
    return process.run(argv, timeout_s=timeout_s, env=environment)


def upload(board: PluggedBoard, image: bytes, folder: Path) -> process.Completed:
    """Everything that remoteocd does, in its order; returns OpenOCD's end."""
    target = ["-s", board.serial_number]
    sketch, config = folder / "sketch.bin-zsk.bin", folder / "flash_sketch.cfg"
    sketch.write_bytes(image)
    config.write_text(CONFIG)
    made = adb(*target, "shell", "mkdir", "-p", "/tmp/remoteocd/")
    assert made.ok, made.stderr
    for each in (sketch, config):
        sent = adb(*target, "push", str(each), f"/tmp/remoteocd/{each.name}")
        assert sent.ok, sent.stderr
        assert "1 file pushed" in sent.stdout
    name = f"/tmp/remoteocd/{sketch.name}"
    sets = [shlex.quote(f"set {each} {name}") for each in ("filename", "filename0")]
    options = ["-c", sets[0], "-c", sets[1], "-f", f"/tmp/remoteocd/{config.name}"]
    return adb(*target, OPENOCD[0], OPENOCD[1], "-d2", *OPENOCD[2:], *options)


def reset(board: PluggedBoard) -> process.Completed:
    return adb("-s", board.serial_number, *OPENOCD, "-c", '"init; reset run; shutdown"')


def test_devices_are_listed_as_adb_does(plug: Plug) -> None:
    assert adb("devices").stdout == "List of devices attached\n\n"
    none = adb("shell", "true")
    assert (none.returncode, none.stderr) == (1, "adb: no devices/emulators found\n")
    board = plug("")
    number = board.serial_number
    assert number == "HILNATIVEQ0001"
    assert adb("devices").stdout == f"List of devices attached\n{number}\tdevice\n\n"
    long = adb("devices", "-l").stdout.splitlines()[1]
    assert long.startswith(f"{number:<22} device usb:1-1 product:nativeq")
    assert adb("get-state").stdout == "device\n"
    assert adb("version").stdout.startswith("Android Debug Bridge version")
    assert adb("start-server").returncode == 0


def test_words_that_adb_refuses(plug: Plug) -> None:
    number = plug("").serial_number
    other = plug("").serial_number
    assert adb("-s", "X", "shell", "ls").stderr == "error: device 'X' not found\n"
    pushed = adb("-s", "X", "push", "a", "/tmp/a")
    assert pushed.stderr.startswith("adb: error: failed to get feature set: device 'X' not found")
    assert adb("shell", "ls").stderr == "error: more than one device/emulator\n"
    assert adb("dance").stderr == "adb: unknown command dance\n"
    assert "usage" in adb().stderr
    assert adb("-s").stderr == "adb: -s requires an argument\n"
    assert number != other


def test_exit_codes_and_streams_pass(plug: Plug) -> None:
    target = ("-s", plug("").serial_number)
    done = adb(*target, "shell", "echo out; nonsense")
    assert (done.returncode, done.stdout) == (127, "out\n")
    assert done.stderr == "sh: 1: nonsense: not found\n"


def test_upload_starts_the_sketch_and_reset_starts_it_again(
    plug: Plug, image: bytes, tmp_path: Path
) -> None:
    board = plug("")
    with open_port(board) as port:
        for _ in range(3):
            done = upload(board, image, tmp_path)
            assert done.ok, done.stderr
            assert port.read(5) == b"boot\n"
            assert reset(board).ok
            assert port.read(5) == b"boot\n"
        port.write(b"hello")
        assert port.read(5) == b"hello"
        port.write(b"VWU")
        assert port.read(16) == b"0.6.0hi2refused\n"
    status = board.status()
    assert (status.stand_in, status.boots) == (True, 6)


def test_port_is_the_same_after_uploads_and_resets(
    plug: Plug, image: bytes, tmp_path: Path
) -> None:
    board = plug("")
    before = Path(board.address).readlink()
    with open_port(board) as port:
        upload(board, image, tmp_path)
        reset(board)
        assert port.read(5) == b"boot\n"
    assert Path(board.address).readlink() == before


def test_half_a_message_at_a_reset_harms_nothing(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug("")
    with open_port(board) as port:
        assert upload(board, image, tmp_path).ok
        assert port.read(5) == b"boot\n"
        for _ in range(5):
            port.write(b"F")
            assert port.read(16) == b"0123456789abcde\n"
            assert reset(board).ok
            seen = port.read_until(b"boot\n")
            assert seen.endswith(b"boot\n")


def test_firmware_with_a_wrong_header_is_silent(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug("")
    assert upload(board, b"?" + image[1:], tmp_path).ok
    assert board.status().state is ChipState.EMPTY
    assert upload(board, image, tmp_path).ok
    wait_until(lambda: board.status().state is not ChipState.EMPTY)


def test_upload_that_fails_and_one_that_lies(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug("[upload_fails]\ntimes = 1\n[upload_lies]\ntimes = 1\n")
    failed = upload(board, image, tmp_path)
    assert failed.returncode == 1
    assert "Error: flash write algorithm failed" in failed.stderr
    assert upload(board, image, tmp_path).ok
    assert board.status().boots == 0
    with open_port(board) as port:
        assert upload(board, image, tmp_path).ok
        assert port.read(5) == b"boot\n"


def test_stale_output_and_reader_that_is_lost(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug(
        '[stale_output]\nlines = ["OK from before"]\n[reader_lost]\nafter_prints = 1\nfor_ms = 1\n'
        "times = 1\n"
    )
    with open_port(board) as port:
        assert upload(board, image, tmp_path).ok
        assert port.read(21) == b"OK from before\r\nboot\n"
        port.write(b"a")
        wait_until(lambda: board.status().dropped_bytes == 1)
        port.timeout = 0.05
        wait_until(lambda: bool(port.write(b"b")) and port.read(1) == b"b")


@pytest.mark.parametrize(
    ("behave", "typed", "seen"),
    [
        ("[prints_reordered]\n", b"R", b"boot\n1234\nReading 1: 4567\nReading 2: "),
        ("[prints_repeated]\n", b"R", b"boot\nReading 1: Reading 1: 1234\n"),
        ("[prints_torn]\nevery_bytes = 2\npause_ms = 20\n", b"R", b"boot\nReading 1: 1234\n"),
        ("[injected]\nwhat = ['nul']\ntimes = 1\n", b"x", b"boot\n\0\0\0x"),
        ("[long_line]\nline_bytes = 300000\ntimes = 1\n", b"x", b"boot\n" + b"x" * 300001),
        ("[bytes_doubled]\nevery_bytes = 5\ntimes = 1\n", b"y", b"booot\ny"),
    ],
)
def test_the_route_does_to_prints_what_the_file_says(
    plug: Plug, image: bytes, tmp_path: Path, behave: str, typed: bytes, seen: bytes
) -> None:
    board = plug(behave)
    with open_port(board) as port:
        assert upload(board, image, tmp_path).ok
        port.write(typed)
        assert port.read(len(seen)) == seen


def test_router_that_stalls_until_the_reset(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug("[router_stalls]\nafter_prints = 2\ntimes = 1\n")
    with open_port(board) as port:
        assert upload(board, image, tmp_path).ok
        port.write(b"a")
        assert port.read(6) == b"boot\na"
        port.write(b"b")
        wait_until(lambda: board.status().received_bytes == 2)
        assert reset(board).ok
        assert port.read(5) == b"boot\n"


def test_port_is_renumbered_at_the_upload(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug("[port_renumbered]\ntimes = 1\n")
    with open_port(board) as port:
        assert upload(board, image, tmp_path).ok
        with pytest.raises(OSError):  # noqa: PT011  # The kernel's words differ.
            port.read(5)
    (moved,) = plugged_boards()
    assert moved.serial_number == board.serial_number
    assert moved.address != board.address
    assert not Path(board.address).exists()
    with open_port(moved) as port:
        assert reset(board).ok
        assert port.read(5) == b"boot\n"


def test_port_is_gone_for_good_and_the_board_with_it(
    plug: Plug, image: bytes, tmp_path: Path
) -> None:
    board = plug("[port_gone]\n")
    assert upload(board, image, tmp_path).ok
    (left,) = plugged_boards()
    assert not left.record.port_present
    assert not Path(board.address).exists()
    assert adb("devices").stdout == "List of devices attached\n\n"
    gone = adb("-s", board.serial_number, "shell", "true")
    assert gone.stderr == f"error: device '{board.serial_number}' not found\n"
    tool = paths.platform_dir() / "hil" / "virtual" / "tools" / "discovery.py"
    listed = process.run(
        [sys.executable, "-I", "-S", "-E", str(tool)],
        timeout_s=20,
        stdin=b'HELLO 1 "test"\nSTART\nLIST\nQUIT\n',
        env={"HIL_RUN_DIR": os.environ["HIL_RUN_DIR"]},
    )
    assert '"ports": []' in listed.stdout


def test_port_goes_at_a_moment(plug: Plug) -> None:
    board = plug("[port_gone]\nafter_ms = 1\n")
    wait_until(lambda: not Path(board.address).exists())


def test_port_permission_is_taken_away(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug("[port_denied]\n")
    assert upload(board, image, tmp_path).ok
    assert stat.S_IMODE(Path(board.address).stat().st_mode) == 0
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            Path(board.address).read_bytes()


def test_another_board_answers(plug: Plug, image: bytes, tmp_path: Path) -> None:
    board = plug('[another_board]\nserial_number = "OTHER1"\n')
    assert upload(board, image, tmp_path).ok
    (other,) = plugged_boards()
    assert (other.serial_number, other.address) == ("OTHER1", board.address)
    assert "OTHER1\tdevice" in adb("devices").stdout
    assert "not found" in adb("-s", board.serial_number, "shell", "true").stderr


@pytest.mark.parametrize(
    ("state", "listed", "refused"),
    [
        ("unauthorized", "unauthorized", "error: device unauthorized."),
        ("offline", "offline", "error: device offline"),
        (
            "no permissions",
            "no permissions (user in plugdev group; are your udev rules wrong?)",
            "error: insufficient permissions for device",
        ),
    ],
)
def test_adb_states_are_listed_and_refuse(
    plug: Plug, state: str, listed: str, refused: str
) -> None:
    number = plug(f'[adb]\nstate = "{state}"\n').serial_number
    assert f"{number}\t{listed}" in adb("devices").stdout
    done = adb("-s", number, "shell", "true")
    assert (done.returncode, done.stderr.startswith(refused)) == (1, True)


def test_one_number_twice_is_refused(plug: Plug) -> None:
    number = plug('[adb]\nstate = "twice"\n').serial_number
    assert adb("devices").stdout.count(f"{number}\tdevice\n") == 2
    assert adb("-s", number, "shell", "true").stderr == "error: more than one device\n"


def test_wedged_adb_hangs_until_it_is_killed_and_the_board_lives_on(plug: Plug) -> None:
    board = plug('[adb]\nstate = "wedged"\ntimes = 1\n')
    hung = process.spawn(
        [sys.executable, "-I", "-S", "-E", str(ADB), "-s", board.serial_number, "shell", "true"]
    )
    try:
        wait_until(lambda: adb("get-state").ok)
        assert hung.poll() is None
    finally:
        process.end(hung)
    assert board.status().stand_in


def test_linux_side_that_boots_is_offline_at_first(plug: Plug) -> None:
    number = plug("[linux_side_boots]\nadb_ms = 300\nrouter_ms = 400\n").serial_number
    wait_until(lambda: adb("-s", number, "shell", "systemctl", "is-active", "arduino-router").ok)


def test_behaviour_and_core_version_are_checked_before_anything_is_plugged_in(
    run_dir: Path, tmp_path: Path
) -> None:
    file = tmp_path / "behave.toml"
    file.write_text("[upload_fail]\n")
    with pytest.raises(UsageError, match="did you mean 'upload_fails'"):
        plug_in(find_board("unoq"), behave=file)
    with pytest.raises(UsageError, match=r"has no core version '9\.9'"):
        plug_in(find_board("unoq"), core_version="9.9")
    with pytest.raises(UsageError, match="'host' is no stand-in and takes no --behave"):
        plug_in(find_board("host"), behave=file)
    assert plugged_boards() == ()
    board = plug_in(find_board("unoq"), core_version="0.55.2", lease_pid=os.getpid())
    assert (board.record.core_version, board.record.stand_in) == ("0.55.2", True)
    assert board.serial_number == "HILUNOQ0001"
    assert run_dir.is_dir()


def test_adb_starts_fast(plug: Plug) -> None:
    number = plug("").serial_number
    took_s = []
    for _ in range(5):
        started_s = monotonic_s()
        assert adb("-s", number, "shell", "true").ok
        took_s.append(monotonic_s() - started_s)
    # A hundredth of what arduino-cli takes for an upload; five tries, since others compute too.
    assert min(took_s) < 0.2
