#pragma once

#include "Stream.h"
#include "bridge.h"

// The serial port that USB sees.  As in the real library: one write is one message, whatever its
// size, and input arrives only when available() asks for it; read() and peek() give what is there.
class BridgeMonitor : public Stream {
 public:
  explicit BridgeMonitor(BridgeClass& bridge) : bridge_(bridge) {}

  // Starts the bridge where it is not; false when nobody is at the other end.  The speed means
  // nothing.
  bool begin(unsigned long baud = 0, uint16_t config = 0);
  void end() {}

  // As it was when begin() asked: a sketch that waits with while (!Serial) waits for ever if it was
  // not.
  bool is_connected() const { return connected_; }
  explicit operator bool() const { return connected_; }

  int available() override;
  int read() override;
  int read(uint8_t* buffer, size_t size);
  int peek() override;

  size_t write(uint8_t value) override { return write(&value, 1); }
  // Before begin() nothing is written: the real library has no client then, and faults.
  size_t write(const uint8_t* data, size_t size) override;
  using Print::write;

  bool reset();

 private:
  static constexpr unsigned kRoom = 512;

  BridgeClass& bridge_;
  uint8_t held_[kRoom];
  unsigned first_ = 0;
  unsigned count_ = 0;
  // The real library reads it under a mutex: without one, or this, the compiler takes a bare
  // while (!Serial) {} for a loop that must end, and leaves it out.
  volatile bool connected_ = false;
};

extern BridgeMonitor Monitor;
