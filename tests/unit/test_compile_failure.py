"""Each kind of compile failure, as the real tools print it, and a good build's noise."""

from __future__ import annotations

import dataclasses

import pytest

from harness.arduino.compile_failure import explain
from harness.arduino.link_mode import fqbn_options, is_dynamic, require_static
from harness.boards.board import find_board
from harness.errors import DutFailure, HilError, ToolError, UsageError

FLASH = (
    "/usr/lib/gcc/arm-none-eabi/bin/ld: x.elf section `.rodata' will not fit in region `FLASH'\n"
    "/usr/lib/gcc/arm-none-eabi/bin/ld: region `FLASH' overflowed by 30640 bytes\n"
    "collect2: error: ld returned 1 exit status\n"
)


@pytest.mark.parametrize(
    ("output", "kind", "says"),
    [
        (FLASH, DutFailure, "flash overflow: 'Big' does not fit board 'm33', over by 30640 B"),
        (FLASH.replace("FLASH", "RAM"), DutFailure, "RAM overflow: 'Big' does not fit"),
        (
            '/s/Big/Big.ino:26:2: error: #error "model.h not found. Export a .pte"\n',
            DutFailure,
            "sketch 'Big' has no model.h",
        ),
        (
            "/s/Big/Big.ino:3:2: error: #error needs GCC 9 or newer\n",
            DutFailure,
            "refuses to compile for board 'm33': needs GCC 9 or newer",
        ),
        (
            "/s/Big/Big.ino:7:10: fatal error: Wire.h: No such file or directory\n",
            DutFailure,
            "there is no header 'Wire.h', included at /s/Big/Big.ino:7",
        ),
        (
            "In function 'void setup()':\n/s/Big/Big.ino:5:3: error: 'Sreial' was not declared\n",
            DutFailure,
            "/s/Big/Big.ino:5:3: 'Sreial' was not declared",
        ),
        (
            "Big.ino.cpp:(.text.setup+0x4): undefined reference to `nowhere()'\n",
            DutFailure,
            "nothing defines 'nowhere()'",
        ),
        (
            "ld: b.o: in function `f()': b.cc:78: multiple definition of `f()'; a.o: first here\n",
            DutFailure,
            "'f()' is defined twice",
        ),
        (
            "/tmp/cc.s: Assembler messages:\n/tmp/cc.s:88: Error: unsupported `vcvtne.f64.f32'\n",
            DutFailure,
            "/tmp/cc.s:88: unsupported",
        ),
        (
            "fatal error: error writing to /tmp/x.s: No space left on device\n",
            ToolError,
            "the disk is full: compiling 'Big'",
        ),
        (
            "g++: fatal error: Killed signal terminated program cc1plus\n",
            ToolError,
            "the compiler crashed or was killed",
        ),
        (
            'exec: "arm-none-eabi-g++": executable file not found in $PATH\n',
            ToolError,
            "'arm-none-eabi-g++' is not installed",
        ),
        (
            "/c/Arduino.h:16:10: fatal error: Arduino_RouterBridge.h: No such file or directory\n",
            ToolError,
            "Arduino_RouterBridge is missing, without which no sketch compiles for board 'm33'",
        ),
        (
            '/c/Arduino.h:19:2: error: #error "Arduino_RouterBridge is missing: Serial is"\n',
            ToolError,
            "Arduino_RouterBridge is missing, without which no sketch compiles for board 'm33'",
        ),
        (
            "/Arduino_RouterBridge/b.h:28:10: fatal error: zephyr/k.h: No such file or directory\n",
            ToolError,
            "b.h' does not compile on the core of board 'm33': it needs 'zephyr/k.h'",
        ),
        ("", ToolError, "the compiler gave no reason"),
    ],
)
def test_cause_is_named(output: str, kind: type[HilError], says: str) -> None:
    error = explain(output, sketch="Big", board="m33")
    assert type(error) is kind
    assert says in error.message
    assert error.remedy


def test_words_of_a_good_build_are_no_error() -> None:
    noise = "\n".join(
        ["arm-none-eabi-g++ -c executorch/runtime/core/error.h", "Error::Ok", "note: error"]
    )
    assert "gave no reason" in explain(noise, sketch="Big", board="m33").message


def test_a_full_disk_is_not_blamed_on_the_sketch() -> None:
    output = "/s/Big/Big.ino:5:3: error: x\n: No space left on device\n"
    assert isinstance(explain(output, sketch="Big", board="m33"), ToolError)


def test_evidence_holds_the_line() -> None:
    assert any(
        "overflowed by 30640" in line for line in explain(FLASH, sketch="Big", board="m33").evidence
    )


TOO_BIG = (
    "Sketch uses 4567890 bytes (580%) of program storage space. Maximum is 786432 bytes.\n"
    "Sketch too big; see https://support.arduino.cc/ for tips on reducing it.\n"
    "text section exceeds available space in board\n"
)


def test_a_dynamic_overflow_is_explained_with_both_figures() -> None:
    error = explain(TOO_BIG, sketch="AddModel", board="unoq", dynamic=True)
    assert isinstance(error, DutFailure)
    assert "linked dynamically" in error.message
    assert "507,876 B linked statically and 787,508 B dynamically" in error.message
    assert "link_mode=static" in error.remedy
    assert any("Sketch uses 4567890 bytes" in line for line in error.evidence)
    static = explain(TOO_BIG, sketch="AddModel", board="unoq")
    assert "787,508" not in static.message


def test_another_failure_of_a_dynamic_build_keeps_its_cause() -> None:
    error = explain("x.ino:5:3: error: nope\n", sketch="x", board="unoq", dynamic=True)
    assert "nope" in error.message


@pytest.mark.parametrize(
    ("fqbn", "says"),
    [
        ("arduino:zephyr:unoq", "leaves link_mode at its default, dynamic"),
        ("arduino:zephyr:unoq:wait_linux_boot=no", "leaves link_mode at its default, dynamic"),
        ("arduino:zephyr:unoq:link_mode=dynamic", "says link_mode=dynamic"),
    ],
)
def test_a_dynamic_link_is_refused_before_compiling(fqbn: str, says: str) -> None:
    board = dataclasses.replace(find_board("unoq"), fqbn=fqbn)
    assert is_dynamic(board)
    with pytest.raises(UsageError) as got:
        require_static(board)
    assert says in got.value.message
    assert "507,876 B linked statically and 787,508 B dynamically" in got.value.message
    assert "link_mode=static" in got.value.remedy


def test_a_static_link_and_boards_without_link_modes_are_not() -> None:
    for board in (find_board("unoq"), find_board("m33")):
        require_static(board)
        assert not is_dynamic(board)
    options = fqbn_options("arduino:zephyr:unoq:link_mode=static,wait_linux_boot=no")
    assert options == {"link_mode": "static", "wait_linux_boot": "no"}
    assert fqbn_options("hil:virtual:m33") == {}
