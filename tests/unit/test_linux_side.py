"""The Linux side of a stand-in: its shell, its files, its OpenOCD and what that writes."""

from __future__ import annotations

import hashlib
import shlex
import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.boards.board import LinuxSide as LinuxSideData
from harness.boards.board import find_board
from harness.emulator.behaviour import Adb, AdbState, Behaviour, Booting, Fault, Turns, Verify
from harness.emulator.flash_model import Flash
from harness.emulator.image import FLASH_BASE, as_elf, header_problem, payload_of, with_header
from harness.emulator.linux_side import MOST_BYTES, Answer, LinuxSide
from harness.emulator.registers import parse, register_lines
from harness.emulator.tcl import Tcl, TclError
from tests.emulated.rpc_firmware import CONFIG

OPENOCD = "/opt/openocd/bin/openocd -s /opt/openocd -f openocd_gpiod.cfg"


@dataclass
class FakeChip:
    """Keeps what the debugger did to it."""

    done: list[object] = field(default_factory=list)

    def start(self, payload: bytes | None) -> None:
        self.done.append(payload)

    def restart(self) -> None:
        self.done.append("restart")

    def hold(self) -> None:
        self.done.append("hold")

    def look(self) -> Path | None:
        return None


def data() -> LinuxSideData:
    found = find_board("unoq").linux_side
    assert found is not None
    return found


class Board:
    """A Linux side with a fake chip; ``sh`` runs a line in its shell."""

    def __init__(self, folder: Path, **faults: object) -> None:
        self.chip = FakeChip()
        self.flash = Flash()
        self.folder = folder / "linux"
        (self.folder / "tmp").mkdir(parents=True)
        behaviour = Behaviour(**faults)  # type: ignore[arg-type]  # By name.
        self.linux = LinuxSide(data(), self.chip, self.flash, self.folder, behaviour, Turns())

    def sh(self, line: str) -> Answer:
        answer = self.linux.run(["shell", *line.split(" ")])
        assert answer is not None
        return answer

    def put(self, name: str, content: bytes) -> str:
        path = self.folder / "tmp" / name
        path.write_bytes(content)
        return f"/tmp/{name}"

    def upload(self, *images: bytes) -> Answer:
        names = [self.put(f"image{number}", image) for number, image in enumerate(images)]
        config = self.put("flash_sketch.cfg", CONFIG.encode())
        sets = [f"set filename {names[0]}"]
        sets += [f"set filename{number} {name}" for number, name in enumerate(names)]
        options = " ".join(f"-c {shlex.quote(each)}" for each in sets)
        return self.sh(f"{OPENOCD} {options} -f {config}")


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


SKETCH = with_header(struct.pack("<II", 0x38080000, FLASH_BASE + 9) + b"0123456789abcdef" * 4)


def test_programs_answer_as_on_debian(board: Board) -> None:
    assert board.sh("true && echo yes || echo no") == Answer(0, "yes\n")
    assert board.sh("false || echo no; echo end") == Answer(0, "no\nend\n")
    assert board.sh("false && echo yes").exit_code == 1
    assert board.sh("getprop") == Answer(127, "", "sh: 1: getprop: not found\n")
    assert board.sh("uname -a").stdout.startswith("Linux ")
    assert board.sh("systemctl is-active arduino-router") == Answer(0, "active\n")
    assert board.sh("systemctl is-active nothing") == Answer(3, "inactive\n")
    assert board.sh("systemctl is-system-running") == Answer(0, "running\n")
    up_s, _ = board.sh("cat /proc/uptime").stdout.split()
    assert float(up_s) >= 0
    assert board.sh("cat /absent").exit_code == 1


def test_shell_says_what_it_cannot(board: Board) -> None:
    assert board.sh("cat x | grep y").exit_code == 2
    assert "Syntax error" in board.sh("echo 'open").stderr


def test_files_come_and_go_inside_the_area(board: Board, tmp_path: Path) -> None:
    source = tmp_path / "sketch.bin"
    source.write_bytes(b"content")
    push = ["push", str(source), "/tmp/remoteocd/sketch.bin"]
    absent = board.linux.run(push)
    assert absent is not None
    assert "couldn't create file: No such file or directory" in absent.stderr
    assert board.sh("mkdir -p /tmp/remoteocd/") == Answer()
    done = board.linux.run(push)
    assert done is not None
    assert "1 file pushed" in done.stdout
    assert board.sh("ls /tmp/remoteocd").stdout == "sketch.bin\n"
    digest = hashlib.sha256(b"content").hexdigest()
    listed = f"{digest}  /tmp/remoteocd/sketch.bin\n"
    assert board.sh("sha256sum /tmp/remoteocd/sketch.bin").stdout == listed
    into = board.linux.run(["push", str(source), "/../../tmp/"])
    assert into is not None
    assert into.exit_code == 0
    assert (board.folder / "tmp" / "sketch.bin").is_file()
    assert board.sh("rm -rf /tmp/remoteocd").exit_code == 0
    assert board.sh("ls /tmp/remoteocd").exit_code == 2
    missing = board.linux.run(["push", str(tmp_path / "absent"), "/tmp/"])
    assert missing is not None
    assert "cannot stat" in missing.stderr


def test_file_area_has_a_limit(board: Board, tmp_path: Path) -> None:
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    refused = board.linux.run(["push", str(big), "/tmp/big"])
    assert refused is not None
    assert (refused.exit_code, "No space left" in refused.stderr) == (1, True)


def test_upload_writes_verifies_and_starts(board: Board) -> None:
    done = board.upload(SKETCH)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert f"wrote {len(SKETCH)} bytes" in done.stderr
    assert done.stderr.endswith("shutdown command invoked\n")
    assert board.chip.done == ["hold", payload_of(SKETCH)]


def test_loader_that_differs_is_written_and_that_is_no_error(board: Board) -> None:
    first = board.upload(b"loader", SKETCH)
    assert "Error: verify failed in bank at 0x08000000 starting at 0x00000000" in first.stderr
    assert (first.exit_code, board.flash.loader) == (0, b"loader")
    again = board.upload(b"loader", SKETCH)
    assert "verify failed" not in again.stderr


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"x" * 100, "Invalid sketch header"),
        (b"", "Invalid sketch header"),
        (SKETCH[:-1], "Failed to load sketch, rc -12"),
        (SKETCH[:-1] + b"?", "Failed to load sketch, rc -12"),
    ],
)
def test_wrong_header_leaves_the_chip_silent(board: Board, image: bytes, problem: str) -> None:
    assert header_problem(image) == problem
    assert board.upload(image).exit_code == 0
    board.sh(f'{OPENOCD} -c "init; reset run; shutdown"')
    assert board.chip.done == ["hold", None, None]


def test_upload_that_fails_leaves_the_old_firmware_and_a_held_core(tmp_path: Path) -> None:
    board = Board(tmp_path, upload_fails=Fault(1))
    failed = board.upload(SKETCH)
    assert failed.exit_code == 1
    assert "Error: flash write algorithm failed" in failed.stderr
    assert board.chip.done == ["hold"]
    assert board.upload(SKETCH).exit_code == 0


def test_upload_that_lies_starts_the_old_firmware(tmp_path: Path) -> None:
    board = Board(tmp_path, upload_lies=Fault(1))
    assert board.upload(SKETCH).exit_code == 0
    assert board.chip.done == ["hold", "restart"]
    assert board.flash.uploads == 1


def test_good_upload_may_be_called_bad(tmp_path: Path) -> None:
    board = Board(tmp_path, upload_verify_failed=Verify(1, exit_code=1))
    done = board.upload(SKETCH)
    assert "Error: verify failed in bank at 0x08000000 starting at 0x00100000" in done.stderr
    assert (done.exit_code, board.chip.done) == (1, ["hold", payload_of(SKETCH)])


def test_header_that_the_loader_rejects_until_the_next_upload(tmp_path: Path) -> None:
    board = Board(tmp_path, header_rejected=Fault(1))
    board.upload(SKETCH)
    board.sh(f'{OPENOCD} -c "init; reset run; shutdown"')
    board.upload(SKETCH)
    assert board.chip.done == ["hold", None, None, "hold", payload_of(SKETCH)]


def test_memory_in_the_flash_is_what_was_written(board: Board) -> None:
    board.upload(SKETCH)
    bytes_ = board.sh(f'{OPENOCD} -c init -c "mdb {FLASH_BASE + 8:#x} 16" -c shutdown')
    assert "0x10000008: 30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66 \n" in bytes_.stderr
    words = board.sh(f'{OPENOCD} -c init -c "mdw {FLASH_BASE:#x} 2" -c shutdown')
    assert "0x10000000: 38080000 10000009 \n" in words.stderr
    only_last = board.sh(f'{OPENOCD} -c "init; mdb 0x10000008 16; shutdown"')
    assert "0x10000008" not in only_last.stderr


def test_blank_chip_has_erased_flash_and_empty_ram(board: Board) -> None:
    words = f'{OPENOCD} -c init -c "mdw {FLASH_BASE + 4:#x}" -c "mdw 0x38000000 2" -c shutdown'
    run = board.sh(words)
    assert "0x10000004: ffffffff \n0x38000000: 00000000 00000000 \n" in run.stderr
    board.upload(SKETCH)
    past = FLASH_BASE + len(payload_of(SKETCH)) - 1
    assert ": 66 ff \n" in board.sh(f'{OPENOCD} -c init -c "mdb {past:#x} 2" -c shutdown').stderr


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('-c "mdb 0x10000000 1"', "The 'mdb' command must be used after 'init'."),
        ('-c init -c "mdb 0xdead0000 4"', "Failed to read memory at 0xdead0000"),
        ("-c init -c mdb", "mdb ['phys'] address [count]"),
        ('-c init -c "mdb 0 99999999"', "count 99999999 out of range"),
        ("-c init -c bogus", 'invalid command name "bogus"'),
        ("-f absent.cfg", "Can't find absent.cfg"),
        ('-c init -c "flash write_image /tmp/x 0x08100000"', "couldn't open /tmp/x"),
        ('-c init -c "reset sideways"', "invalid reset mode 'sideways'"),
        ("--bogus", "Unexpected command line argument: --bogus"),
        ("-c", "option requires an argument -- 'c'"),
        ('-c "echo $none"', 'can\'t read "none": no such variable'),
    ],
)
def test_openocd_ends_with_one_at_the_first_error(board: Board, line: str, error: str) -> None:
    run = board.sh(f"{OPENOCD} {line} -c shutdown")
    if line == "-c":
        run = board.sh(f"{OPENOCD} {line}")
    assert run.exit_code == 1
    assert f"{error}\n" in run.stderr
    assert "shutdown command invoked" not in run.stderr


def test_write_to_a_running_core_is_refused(board: Board) -> None:
    name = board.put("x", SKETCH)
    run = board.sh(f'{OPENOCD} -c init -c "flash write_image {name} 0x08100000 bin" -c shutdown')
    assert (run.exit_code, "Error: Target not halted" in run.stderr) == (1, True)


def test_openocd_that_is_not_shut_down_never_ends(board: Board) -> None:
    assert board.linux.run(["shell", *OPENOCD.split(), "-c", "init"]) is None
    # Without quotes for the board's shell, "shutdown" is a program of Linux and OpenOCD serves on.
    words = [*OPENOCD.split(), "-c", "init; reset run; shutdown"]
    assert board.linux.run(["shell", *words]) is None


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (AdbState.UNAUTHORIZED, "error: device unauthorized."),
        (AdbState.OFFLINE, "error: device offline"),
        (AdbState.NO_PERMISSIONS, "are your udev rules wrong?"),
        (AdbState.TWICE, "error: more than one device"),
        (AdbState.ABSENT, "error: device not found"),
    ],
)
def test_adb_refuses_in_each_state_for_its_turns(
    tmp_path: Path, state: AdbState, text: str
) -> None:
    board = Board(tmp_path, adb=Adb(1, state, None))
    assert board.linux.state() is state
    refused = board.sh("true")
    assert refused.exit_code == 1
    assert text in refused.stderr
    assert board.sh("true") == Answer()
    assert board.linux.state() is None


def test_wedged_adb_never_answers(tmp_path: Path) -> None:
    board = Board(tmp_path, adb=Adb(None, AdbState.WEDGED, None))
    assert board.linux.run(["shell", "true"]) is None


def test_booting_linux_is_offline_and_then_its_router_is_not_up(tmp_path: Path) -> None:
    offline = Board(tmp_path, linux_side_boots=Booting(None, adb_ms=60_000, router_ms=60_000))
    assert "device offline" in offline.sh("true").stderr
    (tmp_path / "b").mkdir()
    board = Board(tmp_path / "b", linux_side_boots=Booting(None, adb_ms=0, router_ms=60_000))
    assert board.sh("systemctl is-active arduino-router") == Answer(3, "inactive\n")
    assert board.sh("systemctl is-system-running") == Answer(1, "starting\n")


def test_image_becomes_an_elf_with_one_segment() -> None:
    elf = as_elf(payload_of(SKETCH))
    assert struct.unpack_from("<HHI", elf, 16) == (2, 40, 1)
    (entry,) = struct.unpack_from("<I", elf, 24)
    assert entry == FLASH_BASE + 9
    kind, offset, address, _, size = struct.unpack_from("<5I", elf, 52)
    assert (kind, address, size) == (1, FLASH_BASE, len(SKETCH) - 16)
    assert elf[offset:] == payload_of(SKETCH)


def test_registers_are_printed_as_openocd_does() -> None:
    text = "R00=00000058 R13=3807ffd8 R14=fffffff9 R15=10000064\nXPSR=61000003 -ZC- T S handler"
    lines = register_lines(parse(text)).splitlines()
    assert lines[:2] == ["===== arm v7m registers", "(0) r0 (/32): 0x00000058"]
    assert "(13) sp (/32): 0x3807ffd8" in lines
    assert "(16) xpsr (/32): 0x61000003" in lines
    assert "(18) psp (/32)" in lines
    assert register_lines({}, "pc") == "pc (/32)"


def run_tcl(script: str) -> list[str]:
    said: list[str] = []
    tcl = Tcl({"twice": lambda words: words[0] * 2}, said.append)
    said.append(tcl.run(script))
    return said


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("set a 1; set b $a$a", ["11"]),
        ('set a "x y"\necho "<$a>"', ["<x y>", ""]),
        ("echo [twice ab]", ["abab", ""]),
        ("# a comment; echo no\necho {$raw [x]}", ["$raw [x]", ""]),
        ("if {[info exists z]} {echo yes} else {echo no}", ["no", ""]),
        ("if {![info exists z]} {echo yes}", ["yes", ""]),
        ("set r [catch {bogus} why]; echo $why", ['invalid command name "bogus"', ""]),
        ("set n 2; if {$n == 2} {set n three}", ["three"]),
        ("if {1 != 1} {echo x}", [""]),
        ("proc p {} {echo in; twice q}; p", ["in", "qq"]),
        ("set a \\\n 5", ["5"]),
        ('echo "tab\\there"', ["tab\there", ""]),
        ("set a 4; echo ${a}x", ["4x", ""]),
    ],
)
def test_tcl_does_what_configuration_files_need(script: str, said: list[str]) -> None:
    assert run_tcl(script) == said


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("bogus", 'invalid command name "bogus"'),
        ("echo {open", "unmatched '{'"),
        ('echo "open', 'missing "'),
        ("proc p {} {p}; p", "too many nested evaluations"),
        ("set", "wrong # args"),
        ("if {1}", "wrong # args"),
        ("proc p {a} {echo}", "only procedures without arguments"),
    ],
)
def test_tcl_says_what_is_wrong(script: str, error: str) -> None:
    with pytest.raises(TclError) as caught:
        run_tcl(script)
    assert error in str(caught.value)
