// Vector table and reset.  Any exception this core does not expect ends in hil_fault, which sleeps
// and says nothing, as a Uno Q does over USB; it is one instruction and leaves every register and
// the stacked frame for whoever looks through QEMU's monitor.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'

#include <stdint.h>
#include <string.h>

#include "hil_machine.h"

typedef void (*handler)(void);

extern uint32_t hil_stack_limit[], hil_stack_top[];
extern char hil_data_source[], hil_data_start[], hil_data_end[];
extern char hil_bss_start[], hil_bss_end[];
extern char hil_tls_base[];
extern handler hil_init_array_start[], hil_init_array_end[];

extern int main(void);
extern void _set_tls(void* block);
extern void hil_clock_begin(void);
extern void hil_guard_begin(void);
extern void hil_uart_begin(void);
extern void hil_uart0_rx_handler(void);

void hil_reset(void);

__attribute__((naked, used)) void hil_fault(void) {
  __asm volatile(
      "1: wfi\n"
      "b 1b\n");
}

// Only the one interrupt is ever enabled, so that every vector may name its handler.
#define FIRST_IRQ 16
#define IRQS 64

__attribute__((section(".vectors"), used)) static const handler vectors[FIRST_IRQ + IRQS] = {
    [0] = (handler)hil_stack_top,
    [1] = hil_reset,
    [2 ... FIRST_IRQ - 1] = hil_fault,
    [FIRST_IRQ ... FIRST_IRQ + IRQS - 1] = hil_uart0_rx_handler,
};

__attribute__((used, noreturn)) static void start(void) {
  memcpy(hil_data_start, hil_data_source, (size_t)(hil_data_end - hil_data_start));
  memset(hil_bss_start, 0, (size_t)(hil_bss_end - hil_bss_start));
  hil_guard_begin();
  _set_tls(hil_tls_base);
  hil_clock_begin();
  hil_uart_begin();
  for (handler* init = hil_init_array_start; init < hil_init_array_end; ++init) {
    (*init)();
  }
  main();
  for (;;) {
  }
}

// In assembly because nothing compiled may run before the FPU is on: the compiler may use its
// registers, or MVE's, wherever it likes.
__attribute__((naked, used)) void hil_reset(void) {
  __asm volatile(
      "ldr r0, =hil_stack_top\n"
      "mov sp, r0\n"
#if __ARM_ARCH >= 8
      // An overflowing stack faults at its end; on cores without this register, guard.c sees to it.
      "ldr r0, =hil_stack_limit\n"
      "msr msplim, r0\n"
#endif
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
      "ldr r0, =0xe000ed88\n"  // CPACR: full access to coprocessors 10 and 11
      "ldr r1, [r0]\n"
      "orr r1, r1, #0x00f00000\n"
      "str r1, [r0]\n"
      "dsb\n"
      "isb\n"
#endif
      "b %c0\n"
      :
      : "i"(start));
}

#endif
