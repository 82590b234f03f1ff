// A Stream that reads from a text and then falls silent.
#pragma once

#include <Arduino.h>

class MemoryStream : public Stream {
 public:
  explicit MemoryStream(const char* text) : next_(text) {}
  int available() override { return static_cast<int>(strlen(next_)); }
  int read() override { return *next_ == '\0' ? -1 : static_cast<unsigned char>(*next_++); }
  int peek() override { return *next_ == '\0' ? -1 : static_cast<unsigned char>(*next_); }
  size_t write(uint8_t) override { return 1; }
  using Print::write;

 private:
  const char* next_;
};
