// The registers this core uses.  Those of the processor are the Arm architecture's; those of the
// peripherals are Arm's CMSDK parts as in the FPGA images that QEMU's machines stand for, at the
// addresses hil_machine.h of the variant gives.
#pragma once

#include <stdint.h>

#include "hil_machine.h"

namespace hil {

inline volatile uint32_t& reg(uint32_t address) {
  return *reinterpret_cast<volatile uint32_t*>(address);
}

constexpr uint32_t kSysTickControl = 0xe000e010;
constexpr uint32_t kSysTickReload = 0xe000e014;
constexpr uint32_t kSysTickValue = 0xe000e018;
constexpr uint32_t kSysTickEnable = 1u << 0 | 1u << 1 | 1u << 2;  // run, pend, processor clock
constexpr uint32_t kSysTickMost = 0xffffff;

constexpr uint32_t kNvicEnable = 0xe000e100;
constexpr uint32_t kNvicDisable = 0xe000e180;
constexpr uint32_t kInterruptControl = 0xe000ed04;
constexpr uint32_t kClearPendingSysTick = 1u << 25;

// CMSDK APB UART (Arm DDI 0479, APB UART).
constexpr uint32_t kUartData = 0x00;
constexpr uint32_t kUartState = 0x04;
constexpr uint32_t kUartControl = 0x08;
constexpr uint32_t kUartInterrupt = 0x0c;
constexpr uint32_t kUartDivider = 0x10;
constexpr uint32_t kUartTxFull = 1u << 0;
constexpr uint32_t kUartRxFull = 1u << 1;
constexpr uint32_t kUartTxEnable = 1u << 0;
constexpr uint32_t kUartRxEnable = 1u << 1;
constexpr uint32_t kUartRxInterruptEnable = 1u << 3;
constexpr uint32_t kUartRxInterrupt = 1u << 1;
// The least the part accepts; the speed has no meaning here.
constexpr uint32_t kUartLeastDivider = 16;

// Interrupts are off while this exists, and then as they were before.
class InterruptsOff {
 public:
  InterruptsOff() { __asm volatile("mrs %0, primask\n cpsid i" : "=r"(before_)::"memory"); }
  ~InterruptsOff() { __asm volatile("msr primask, %0\n isb" ::"r"(before_) : "memory"); }
  InterruptsOff(const InterruptsOff&) = delete;
  InterruptsOff& operator=(const InterruptsOff&) = delete;

 private:
  uint32_t before_;
};

// With interrupts off, WFI still wakes for one that is pending: what makes "look, then sleep" safe.
inline void wait_for_interrupt() { __asm volatile("dsb\n wfi" ::: "memory"); }

}  // namespace hil
