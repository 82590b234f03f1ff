#include "HardwareSerial.h"

#include "hal.h"
#include "hil_board.h"
#include "idle.h"

HardwareSerial Serial;

namespace hil::idle {
namespace {
// Far more passes than a sketch would count for a purpose, and under 10 ms of emulation.
constexpr unsigned kIdlePolls = 10000;
unsigned polls = 0;
}  // namespace

void busy() { polls = 0; }

void polled() {
  if (++polls >= kIdlePolls) {
    hal::serial_wait();
    polls = 0;
  }
}
}  // namespace hil::idle

int HardwareSerial::available() {
  if (hil::hal::serial_available() == 0) {
    hil::idle::polled();
  }
  return static_cast<int>(hil::hal::serial_available());
}

int HardwareSerial::read() {
  int value = hil::hal::serial_read();
  if (value < 0) {
    hil::idle::polled();
    value = hil::hal::serial_read();
  }
  if (value >= 0) {
    hil::idle::busy();
  }
  return value;
}

int HardwareSerial::peek() {
  if (hil::hal::serial_available() == 0) {
    hil::idle::polled();
  }
  return hil::hal::serial_peek();
}

int HardwareSerial::availableForWrite() { return 1; }

size_t HardwareSerial::write(uint8_t value) { return write(&value, 1); }

size_t HardwareSerial::write(const uint8_t* data, size_t size) {
  hil::idle::busy();
  hil::hal::serial_write(data, size);
  return size;
}

extern "C" void hil_wait_for_input(void) { hil::hal::serial_wait(); }
