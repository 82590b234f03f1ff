"""Each kind of compile failure, as the real tools print it, and a good build's noise."""

from __future__ import annotations

import pytest

from harness.arduino.compile_failure import explain
from harness.errors import DutFailure, HilError, ToolError

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
