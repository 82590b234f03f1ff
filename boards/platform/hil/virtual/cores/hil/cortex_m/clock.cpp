// Time and the instruction count, with no periodic interrupt: one would run in the middle of an
// inference and make its count depend on when it fell.
//
// Time comes from a counter that QEMU computes from virtual time when it is read.  A timer that
// runs freely would not do: QEMU would treat its overflow as an event to wait for, and an idle
// board would leap from one overflow to the next instead of sleeping.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'

#include <numeric>

#include "../hal.h"
#include "../hil_board.h"
#include "registers.h"
#include "sleeping.h"

namespace {

using hil::reg;

constexpr uint64_t kNanosecondsPerSecond = 1000000000u;
constexpr int kInstructionShift = HIL_ICOUNT_SHIFT;

#if defined(HIL_SYSTEM_COUNTER)
// SSE-300 system counter: 64 bits, read while the upper half stands still.
constexpr uint32_t kCounterLow = HIL_SYSTEM_COUNTER;
constexpr uint32_t kCounterHigh = HIL_SYSTEM_COUNTER + 4;

uint64_t ticks() {
  for (;;) {
    const uint32_t high = reg(kCounterHigh);
    const uint32_t low = reg(kCounterLow);
    if (reg(kCounterHigh) == high) {
      return static_cast<uint64_t>(high) << 32 | low;
    }
  }
}
#else
// FPGAIO: COUNTER has 32 bits and wraps after minutes; CLK100HZ, which counts the same time in
// hundredths of a second, says how often it has.
constexpr uint32_t kCounterLow = HIL_FPGAIO + 0x18;
constexpr uint32_t kHundredths = HIL_FPGAIO + 0x14;

uint64_t ticks() {
  const uint32_t low = reg(kCounterLow);
  const uint64_t about = static_cast<uint64_t>(reg(kHundredths)) * (HIL_CLOCK_HZ / 100);
  const int64_t wraps = (static_cast<int64_t>(about) - low + (1ll << 31)) >> 32;
  return (static_cast<uint64_t>(wraps) << 32) + low;
}
#endif

// A tick is kTickNumerator / kTickDenominator ns: 40, 50 or 125 / 4.  No division by a variable
// or by anything but a power of two, whose instruction count would depend on the values and so make
// the cost of a reading vary.  Overflows after a century.
constexpr uint64_t kCommon = std::gcd(kNanosecondsPerSecond, static_cast<uint64_t>(HIL_CLOCK_HZ));
constexpr uint64_t kTickNumerator = kNanosecondsPerSecond / kCommon;
constexpr uint64_t kTickDenominator = HIL_CLOCK_HZ / kCommon;
static_assert((kTickDenominator & (kTickDenominator - 1)) == 0, "a power of two divides cheaply");

uint64_t to_ns(uint64_t count) { return count * kTickNumerator / kTickDenominator; }

// Virtual time to within 16 ns.  A tick is 31 to 50 ns and an instruction 64, so one reading could
// be out by nearly an instruction.  Four readings, one instruction apart, each bound the moment of
// the first: it is at or after tick * period - instructions since, and the largest bound is the
// closest.
uint64_t precise_ns() {
  uint32_t a, b, c, d;
  uint64_t wide;
  {
    const hil::InterruptsOff off;
    wide = ticks();
    __asm volatile(
        "ldr %0, [%4]\n"
        "ldr %1, [%4]\n"
        "ldr %2, [%4]\n"
        "ldr %3, [%4]\n"
        : "=&r"(a), "=&r"(b), "=&r"(c), "=&r"(d)
        : "r"(kCounterLow)
        : "memory");
  }
  const uint32_t readings[] = {a, b, c, d};
  const uint64_t first = wide + (a - static_cast<uint32_t>(wide));
  uint64_t latest = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint64_t bound =
        to_ns(first + (readings[i] - a)) - (static_cast<uint64_t>(i) << kInstructionShift);
    // The larger of the two without a branch, so that every reading takes the same instructions.
    const uint64_t later = bound - latest;
    latest += later & ~static_cast<uint64_t>(static_cast<int64_t>(later) >> 63);
  }
  return latest;
}

// Where counting last began: at reset, and after each sleep.  All instructions since then started
// a whole number of instruction times after it, so rounding a difference is exact.
uint64_t base_ns;
int64_t base_instructions;

int64_t instructions_at(uint64_t now_ns) {
  const uint64_t half = 1ull << (kInstructionShift - 1);
  return base_instructions + static_cast<int64_t>((now_ns - base_ns + half) >> kInstructionShift);
}

// QEMU lets SysTick load its first value no sooner than 10 us after it was started.
constexpr uint64_t kArmingNs = 12000;
constexpr uint64_t kLongestSleepNs = kNanosecondsPerSecond / 2;
static_assert(HIL_CLOCK_HZ / 2 <= hil::kSysTickMost, "half a second must fit into SysTick");

// Sleeps for `duration_ns` or until another interrupt.  SysTick is stopped from reloading as soon
// as it runs: with a second expiry in sight, QEMU 7.2 advances to that one before it wakes the
// processor.
void sleep_ns(uint64_t duration_ns) {
  const hil::InterruptsOff off;
  reg(hil::kSysTickReload) =
      static_cast<uint32_t>(duration_ns * (HIL_CLOCK_HZ / 1000000u) / 1000u);
  reg(hil::kSysTickValue) = 0;
  reg(hil::kSysTickControl) = hil::kSysTickEnable;
  while (reg(hil::kSysTickValue) == 0) {
  }
  reg(hil::kSysTickReload) = 0;
  hil::wait_for_interrupt();
  reg(hil::kSysTickControl) = 0;
  reg(hil::kInterruptControl) = hil::kClearPendingSysTick;
}

}  // namespace

hil::Sleeping::Sleeping() : counted_(instructions_at(precise_ns())) {}

hil::Sleeping::~Sleeping() {
  base_ns = precise_ns();
  base_instructions = counted_;
}

namespace hil::hal {

uint64_t time_ns() { return to_ns(ticks()); }

void wait_ns(uint64_t duration_ns) {
  const uint64_t deadline = time_ns() + duration_ns;
  const Sleeping sleeping;
  for (uint64_t now = time_ns(); now < deadline; now = time_ns()) {
    const uint64_t left = deadline - now;
    if (left >= 2 * kArmingNs) {
      sleep_ns(left - kArmingNs < kLongestSleepNs ? left - kArmingNs : kLongestSleepNs);
    }
  }
}

void interrupts_off() { __asm volatile("cpsid i" ::: "memory"); }

void interrupts_on() { __asm volatile("cpsie i\n isb" ::: "memory"); }

}  // namespace hil::hal

extern "C" {

int hil_has_instruction_count(void) { return 1; }

int64_t hil_instruction_count(void) { return instructions_at(precise_ns()); }

int64_t hil_instruction_overhead(void) {
  const int64_t first = hil_instruction_count();
  return hil_instruction_count() - first;
}

// Called once, before the first static constructor.
void hil_clock_begin(void) {
#if defined(HIL_SYSTEM_COUNTER)
  reg(HIL_SYSTEM_COUNTER_CONTROL) = 1;
#endif
  base_ns = precise_ns();
}

}  // extern "C"

#endif
