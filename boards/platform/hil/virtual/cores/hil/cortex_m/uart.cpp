// Serial on UART0 and the C library's streams on UART1.
//
// Input is interrupt-driven into a ring.  When the ring is full the byte stays in the UART and its
// interrupt is shut off, so QEMU holds the rest back: nothing is lost however long a sketch
// computes.  Output is polled.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'

#include "../hal.h"
#include "registers.h"
#include "sleeping.h"

namespace {

using hil::reg;

constexpr unsigned kRingSize = 256;  // a power of two, so that the free-running indexes may wrap

volatile uint8_t ring[kRingSize];
volatile unsigned ring_written;
volatile unsigned ring_read;
volatile bool held_back;

constexpr uint32_t kRxBit = 1u << (HIL_UART0_RX_IRQ % 32);
constexpr uint32_t kRxWord = HIL_UART0_RX_IRQ / 32 * 4;

// QEMU looks whether the receiver is enabled only when its main loop turns, and enabling it does not
// turn the loop; a short sleep does.  Without it a sketch that prints nothing would stay deaf.
constexpr uint64_t kSettleNs = 50000;

void send(uint32_t uart, uint8_t value) {
  while (reg(uart + hil::kUartState) & hil::kUartTxFull) {
  }
  reg(uart + hil::kUartData) = value;
}

}  // namespace

extern "C" {

void hil_uart0_rx_handler(void) {
  while (reg(HIL_UART0 + hil::kUartState) & hil::kUartRxFull) {
    if (ring_written - ring_read == kRingSize) {
      reg(hil::kNvicDisable + kRxWord) = kRxBit;
      held_back = true;
      return;
    }
    // Before the data is read: reading lets the next byte in, whose interrupt must not be cleared.
    reg(HIL_UART0 + hil::kUartInterrupt) = hil::kUartRxInterrupt;
    ring[ring_written % kRingSize] = static_cast<uint8_t>(reg(HIL_UART0 + hil::kUartData));
    ring_written = ring_written + 1;
  }
}

// Called once, before the first static constructor.
void hil_uart_begin(void) {
  reg(HIL_UART0 + hil::kUartDivider) = hil::kUartLeastDivider;
  reg(HIL_UART0 + hil::kUartControl) =
      hil::kUartTxEnable | hil::kUartRxEnable | hil::kUartRxInterruptEnable;
  reg(HIL_UART1 + hil::kUartDivider) = hil::kUartLeastDivider;
  reg(HIL_UART1 + hil::kUartControl) = hil::kUartTxEnable;
  reg(hil::kNvicEnable + kRxWord) = kRxBit;
  hil::hal::wait_ns(kSettleNs);
}

void hil_console_write(char value) { send(HIL_UART1, static_cast<uint8_t>(value)); }

}  // extern "C"

namespace hil::hal {

size_t serial_available() { return ring_written - ring_read; }

int serial_peek() { return ring_written == ring_read ? -1 : ring[ring_read % kRingSize]; }

int serial_read() {
  const int value = serial_peek();
  if (value >= 0) {
    ring_read = ring_read + 1;
    if (held_back) {
      held_back = false;
      reg(kNvicEnable + kRxWord) = kRxBit;
    }
  }
  return value;
}

void serial_write(const uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    send(HIL_UART0, data[i]);
  }
}

void serial_wait() {
  const Sleeping sleeping;
  while (serial_available() == 0) {
    const InterruptsOff off;
    if (serial_available() == 0) {
      wait_for_interrupt();
      // Here rather than by its interrupt, which the sketch may have shut off.
      hil_uart0_rx_handler();
    }
  }
}

}  // namespace hil::hal

#endif
