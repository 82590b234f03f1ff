#pragma once

#include "Stream.h"

// The board's serial port: UART0 when emulated, stdin and stdout natively.  The speed means
// nothing here, as on a Uno Q.
class HardwareSerial : public Stream {
 public:
  void begin(unsigned long) {}
  void begin(unsigned long, uint16_t) {}
  void end() {}
  explicit operator bool() const { return true; }

  // After kIdlePolls polls that found nothing, with neither output nor a look at the clock
  // between them, the next one sleeps until a byte arrives: nothing else could change what such a
  // sketch does, and an idle board then costs the computer that runs it nothing.
  int available() override;
  int read() override;
  int peek() override;
  int availableForWrite() override;
  size_t write(uint8_t value) override;
  size_t write(const uint8_t* data, size_t size) override;
  using Print::write;
};

extern HardwareSerial Serial;
