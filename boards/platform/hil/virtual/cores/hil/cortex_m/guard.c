// Memory protection where QEMU is more forgiving than a board: its flash can be written, and below
// RAM lies a device that swallows what is written to it.  Without this, a write through a null
// pointer would damage the vector table and an overflowing stack would go on, both without a sign.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'

#include <stdint.h>

#include "hil_machine.h"

#define MPU_CONTROL (*(volatile uint32_t*)0xe000ed94)
#define MPU_REGION (*(volatile uint32_t*)0xe000ed98)
#define MPU_BASE (*(volatile uint32_t*)0xe000ed9c)
#define MPU_LIMIT (*(volatile uint32_t*)0xe000eda0)  // size and attributes before Armv8-M
#define MPU_MEMORY_TYPES (*(volatile uint32_t*)0xe000edc0)

// On, with the default map wherever no region lies.
#define MPU_ON (1u << 0 | 1u << 2)

enum access { READ_ONLY, NONE };

static const struct {
  uint32_t base;
  uint32_t size_log2;
  enum access access;
} guards[] = {HIL_GUARDS};

static void set(uint32_t base, uint32_t size_log2, enum access access) {
#if __ARM_ARCH >= 8
  // There is no "no access" in this architecture; MSPLIM stands guard over the stack instead.
  (void)access;
  MPU_BASE = base | 3u << 1;
  MPU_LIMIT = ((base + (1u << size_log2) - 1) & ~31u) | 1u;
#else
  MPU_BASE = base;
  MPU_LIMIT = (access == READ_ONLY ? 6u : 0u) << 24 | 1u << 17 | (size_log2 - 1) << 1 | 1u;
#endif
}

// Called once, before the first static constructor.
void hil_guard_begin(void) {
#if __ARM_ARCH >= 8
  MPU_MEMORY_TYPES = 0xff;
#endif
  for (uint32_t i = 0; i < sizeof(guards) / sizeof(guards[0]); ++i) {
    MPU_REGION = i;
    set(guards[i].base, guards[i].size_log2, guards[i].access);
  }
  MPU_CONTROL = MPU_ON;
  __asm volatile("dsb\n isb" ::: "memory");
}

#endif
