"""A firmware that speaks to the router by remote calls, for an505 and for this machine.

It needs neither the Arduino core nor the bridge's library, so a failure here is the route's.  After
"boot" it polls for input and echoes it, one print for each byte; capital letters are commands.
"""

from __future__ import annotations

import struct
from pathlib import Path

from harness.emulator.image import with_header
from tests.emulated.bare_firmware import VECTORS, compile_arm, compile_native

CALLS = r"""
static const char text[] = "MCU starting RPC Bridge communication";
const char nonce[17] __attribute__((used, aligned(4))) = "0123456789abcdef";
static unsigned number;
static unsigned char got[300], typed[64], many[4096];
static int got_size;

static void say(const void *data, unsigned size) {
  const unsigned char *p = data;
  while (size--) put(*p++);
}
static void name(const char *s) {
  unsigned n = 0;
  while (s[n]) n++;
  put(0xa0 | n);
  say(s, n);
}
static void skip(unsigned n) { while (n--) hear(); }

/* Reads [1, id, error, result]; what comes in bytes is kept, a bool or a number is returned. */
static int answer(void) {
  int c, size;
  got_size = 0;
  while (hear() != 0x94) {}
  hear();
  if (hear() >= 0xcc) skip(1);
  c = hear();
  if ((c & 0xf0) == 0x90) {
    for (int n = c & 15; n; n--) {
      c = hear();
      if ((c & 0xe0) == 0xa0) skip(c & 31);
      else if (c == 0xd9) skip(hear());
    }
  }
  c = hear();
  if (c == 0xc4) size = hear();
  else if (c == 0xc5) { size = hear() << 8; size |= hear(); }
  else if ((c & 0xe0) == 0xa0) size = c & 31;
  else return c;
  for (int n = 0; n < size; n++) got[n % 300] = hear();
  got_size = size;
  return size;
}
static void head(const char *method, unsigned params) {
  put(0x94); put(0); put(number = (number + 1) & 0x7f);
  name(method);
  put(0x90 | params);
}
static void print(const void *data, unsigned size) {
  put(0x93); put(2); name("mon/write"); put(0x91);
  if (size < 32) put(0xa0 | size);
  else { put(0xda); put(size >> 8); put(size); }
  say(data, size);
}
static void run(void) {
  say(text, sizeof text - 1);
  head("$/reset", 0); answer();
  head("mon/connected", 0); answer();
  print("boot\n", 5);
  for (;;) {
    head("mon/read", 1); put(64);
    answer();
    int size = got_size;
    for (int n = 0; n < size; n++) typed[n] = got[n];
    for (int n = 0; n < size; n++) {
      unsigned char c = typed[n];
      if (c == 'F') for (int i = 0; i < 5000; i++) print("0123456789abcde\n", 16);
      else if (c == 'L') {
        for (int i = 0; i < 4096; i++) many[i] = 'a' + i % 26;
        print(many, 4096);
      } else if (c == 'R') {
        print("Reading 1: ", 11);
        print("1234\n", 5);
        print("Reading 2: ", 11);
        print("4567\n", 5);
      } else if (c == 'W') {
        head("mon/write", 1); put(0xa2); say("hi", 2);
        unsigned char d = '0' + answer();
        print(&d, 1);
      }
      else if (c == 'V') { head("$/version", 0); answer(); print(got, got_size); }
      else if (c == 'U') { head("no/such", 0); answer(); print("refused\n", 8); }
      else if (c == 'B') { put(0xc1); print("after\n", 6); }
      else if (c == 'S') for (;;) spin();
      else if (c == 'X') crash();
      else print(&c, 1);
    }
  }
}
"""

ARM = (
    r"""
#define UART ((volatile unsigned *)0x40200000u)
static void put(int c) { while (UART[1] & 1) {} UART[0] = c & 0xff; }
static int hear(void) {
  while (!(UART[1] & 2)) {
    *(volatile unsigned *)0xE000E284u = 1;
    if (!(UART[1] & 2)) __asm volatile("wfi");
  }
  UART[3] = 2;
  return UART[0] & 0xff;
}
static void spin(void) { __asm volatile("nop"); }
__attribute__((noinline)) static void crash(void) {
  (void)*(volatile unsigned *)0xDEAD0000u;
  __asm volatile("nop");
}
"""
    + CALLS
    + r"""
/* Interrupts stay masked: a pending one still ends the sleep. */
void reset(void) {
  __asm volatile("cpsid i");
  UART[4] = 16; UART[2] = 11;
  *(volatile unsigned *)0xE000E104u = 1;
  run();
}
"""
    + VECTORS
)

NATIVE = (
    r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned char out[4096];
static int held;
static void flush(void) { if (held && write(1, out, held) != held) _exit(3); held = 0; }
static void put(int c) { out[held++] = c; if (held == 4096) flush(); }
static int hear(void) {
  unsigned char b;
  flush();
  if (read(0, &b, 1) != 1) for (;;) pause();
  return b;
}
static void spin(void) { flush(); pause(); }
static void crash(void) { flush(); abort(); }
"""
    + CALLS
    + "int main(void) { run(); }\n"
)


def build_arm(folder: Path) -> Path:
    """The firmware for an505 in ``folder``; skips the test when there is no Arm compiler."""
    return compile_arm(ARM, folder / "rpc.elf")


def build_native(folder: Path) -> Path:
    """The native program in ``folder``; skips the test when there is no C compiler."""
    return compile_native(NATIVE, folder / "rpc-native.elf")


def raw_image(elf: Path) -> bytes:
    """The image of an Arm program as an upload has it: its first segment behind a header."""
    data = elf.read_bytes()
    (phoff,) = struct.unpack_from("<I", data, 28)
    _, offset, address, _, size = struct.unpack_from("<5I", data, phoff)
    assert address == 0x10000000
    return with_header(data[offset : offset + size])


def native_image(elf: Path) -> bytes:
    """The image of a native program: the whole of it behind a header."""
    return with_header(elf.read_bytes())


CONFIG = """
# Written by hand for the tests: the loader first where there is one, then the sketch.
init
reset halt
if {[info exists filename1]} {
  if {[catch {flash verify_image $filename0}]} {
    flash write_image erase $filename0
  }
  set sketch $filename1
} else {
  set sketch $filename0
}
flash write_image erase $sketch 0x08100000 bin
flash verify_image $sketch 0x08100000 bin
reset run
shutdown
"""
