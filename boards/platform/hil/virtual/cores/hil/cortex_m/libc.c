// What picolibc leaves to the system.
//
// stdout and stderr go to UART1, which stands for the debug console on the Uno Q's D0/D1 pins: like
// there, printf does not appear on Serial.  QEMU discards it unless given a second -serial.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

extern char __heap_start[];

void hil_console_write(char value);

static int put(char value, FILE* stream) {
  (void)stream;
  hil_console_write(value);
  return (unsigned char)value;
}

static int get(FILE* stream) {
  (void)stream;
  return EOF;
}

static FILE console = FDEV_SETUP_STREAM(put, get, NULL, _FDEV_SETUP_RW);

FILE* const stdin = &console;
FILE* const stdout = &console;
FILE* const stderr = &console;

// abort() and a failed assert() end here: interrupts off, asleep, silent.
__attribute__((noreturn)) void _exit(int status) {
  (void)status;
  for (;;) {
    __asm volatile("cpsid i\n wfi");
  }
}

int getpid(void) { return 1; }

int kill(int pid, int signal) {
  (void)pid;
  _exit(128 + signal);
}

int64_t hil_heap_high_water_bytes(void) {
  // The break only ever rises.
  return (char*)sbrk(0) - __heap_start;
}

#endif
