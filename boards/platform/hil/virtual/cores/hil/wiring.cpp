#include "Arduino.h"
#include "hal.h"
#include "idle.h"

#define TEXT_OF(token) #token
#define EXPANDED_TEXT_OF(token) TEXT_OF(token)

namespace {

// As many pins as a uint8_t can name.
uint8_t pin_levels[256];

uint32_t random_state = 1;

// Park and Miller's minimal standard generator: the same sequence on every board.
uint32_t next_random() {
  random_state = static_cast<uint32_t>(static_cast<uint64_t>(random_state) * 48271u % 2147483647u);
  return random_state;
}

}  // namespace

extern "C" {

unsigned long millis(void) {
  hil::idle::busy();
  return static_cast<unsigned long>(static_cast<uint32_t>(hil::hal::time_ns() / 1000000u));
}

unsigned long micros(void) {
  hil::idle::busy();
  return static_cast<unsigned long>(static_cast<uint32_t>(hil::hal::time_ns() / 1000u));
}

void delay(unsigned long duration_ms) {
  hil::idle::busy();
  hil::hal::wait_ns(static_cast<uint64_t>(duration_ms) * 1000000u);
}

void delayMicroseconds(unsigned int duration_us) {
  hil::idle::busy();
  hil::hal::wait_ns(static_cast<uint64_t>(duration_us) * 1000u);
}

__attribute__((weak)) void yield(void) {}

void interrupts(void) { hil::hal::interrupts_on(); }

void noInterrupts(void) { hil::hal::interrupts_off(); }

void pinMode(uint8_t pin, uint8_t mode) {
  if (mode == INPUT_PULLUP) {
    pin_levels[pin] = HIGH;
  }
}

void digitalWrite(uint8_t pin, uint8_t level) { pin_levels[pin] = level == LOW ? LOW : HIGH; }

int digitalRead(uint8_t pin) { return pin_levels[pin]; }

int analogRead(uint8_t) { return 0; }

void analogWrite(uint8_t pin, int value) { pin_levels[pin] = value > 127 ? HIGH : LOW; }

uint64_t hil_virtual_time_ns(void) {
  hil::idle::busy();
  return hil::hal::time_ns();
}

const char* hil_board_name(void) { return EXPANDED_TEXT_OF(HIL_BOARD_NAME); }

}  // extern "C"

long map(long x, long in_min, long in_max, long out_min, long out_max) {
  return (x - in_min) * (out_max - out_min) / (in_max - in_min) + out_min;
}

void randomSeed(unsigned long seed) {
  // 0 would stay 0 for ever, and Arduino ignores it too.
  if (seed % 2147483647u != 0) {
    random_state = static_cast<uint32_t>(seed % 2147483647u);
  }
}

long random(long below) {
  return below <= 0 ? 0 : static_cast<long>(next_random() % static_cast<uint32_t>(below));
}

long random(long from, long below) { return from >= below ? from : from + random(below - from); }
