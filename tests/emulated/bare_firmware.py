"""A sketch-less firmware for an505 and a program that does the same natively.

Both say "boot", echo what they hear, and obey a few capital letters; neither needs the Arduino
core, so a failure here is the emulator's.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import process

COMMANDS = r"""
static void run(void) {
  say("boot\n");
  for (;;) {
    int c = hear();
    if (c == 'F') for (long n = 0; n < 10 * 1024 * 1024 / 16; n++) say("0123456789abcde\n");
    else if (c == 'N') for (int n = 0; n < 256; n++) put(n);
    else if (c == 'S') for (;;) spin();
    else if (c == 'X') crash();
    else put(c);
  }
}
"""

VECTORS = r"""
void fault(void) { for (;;) spin(); }
__attribute__((section(".vectors"), used)) const void *vectors[16] = {
  (void *)0x38080000u, reset, fault, fault, fault, fault, fault, fault,
  fault, fault, fault, fault, fault, fault, fault, fault };
"""
"""Ends the text of a firmware that defines ``reset`` and ``spin``."""

ARM = (
    r"""
#define UART ((volatile unsigned *)0x40200000u)
static void put(int c) { while (UART[1] & 1) {} UART[0] = c & 0xff; }
static void say(const char *s) { while (*s) put(*s++); }
static int hear(void) { while (!(UART[1] & 2)) {} return UART[0] & 0xff; }
static void spin(void) { __asm volatile("nop"); }
__attribute__((noinline)) static void crash(void) {
  (void)*(volatile unsigned *)0xDEAD0000u;
  __asm volatile("nop");
}
"""
    + COMMANDS
    + r"""
void reset(void) { UART[4] = 16; UART[2] = 3; run(); }
"""
    + VECTORS
)

NATIVE = (
    r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void put(int c) { unsigned char b = c; if (write(1, &b, 1) != 1) _exit(3); }
static void say(const char *s) { while (*s) put(*s++); }
static int hear(void) { unsigned char b; if (read(0, &b, 1) != 1) for (;;) pause(); return b; }
static void spin(void) {}
static void crash(void) { fprintf(stderr, "about to abort\n"); fflush(stderr); abort(); }
"""
    + COMMANDS
    + "int main(void) { run(); }\n"
)

LINKER = """
ENTRY(reset)
SECTIONS {
  . = 0x10000000;
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) }
  . = 0x38000000;
  .bss : { *(.data*) *(.bss*) }
}
"""


def build_arm(folder: Path) -> Path:
    """The firmware for an505 in ``folder``; skips the test when there is no Arm compiler."""
    return compile_arm(ARM, folder / "bare.elf")


def build_native(folder: Path) -> Path:
    """The native program in ``folder``; skips the test when there is no C compiler."""
    return compile_native(NATIVE, folder / "native.elf")


def compile_arm(text: str, output: Path) -> Path:
    """A firmware for an505 from C; skips the test when there is no Arm compiler."""
    script = output.with_suffix(".ld")
    script.write_text(LINKER)
    flags = ["-mcpu=cortex-m33", "-mthumb", "-g", "-O1", "-ffreestanding", "-nostdlib"]
    return _compile("arm-none-eabi-gcc", [*flags, "-nostartfiles", f"-T{script}"], text, output)


def compile_native(text: str, output: Path) -> Path:
    """A program for this machine from C; skips the test when there is no C compiler."""
    return _compile("cc", ["-O1"], text, output)


def _compile(name: str, flags: list[str], text: str, output: Path) -> Path:
    compiler = shutil.which(name)
    if compiler is None:
        pytest.skip(f"{name} is not installed")
    source = output.with_suffix(".c")
    source.write_text(text)
    done = process.run([compiler, *flags, str(source), "-o", str(output)], timeout_s=60)
    assert done.ok, done.stderr
    return output
