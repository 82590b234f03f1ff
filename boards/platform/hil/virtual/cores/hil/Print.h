#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "Printable.h"
#include "WString.h"

#define DEC 10
#define HEX 16
#define OCT 8
#define BIN 2

// Formatting onto a byte sink.  Numbers follow Arduino's rules, which are not printf's: see
// print(double, int) and print_signed.
class Print {
 public:
  virtual ~Print() = default;

  virtual size_t write(uint8_t value) = 0;
  virtual size_t write(const uint8_t* data, size_t size);
  size_t write(const char* text) {
    return text == nullptr ? 0 : write(reinterpret_cast<const uint8_t*>(text), strlen(text));
  }
  size_t write(const char* text, size_t size) {
    return write(reinterpret_cast<const uint8_t*>(text), size);
  }
  virtual int availableForWrite() { return 0; }
  virtual void flush() {}

  int getWriteError() const { return write_error_; }
  void clearWriteError() { write_error_ = 0; }

  size_t print(const __FlashStringHelper* text) { return write(reinterpret_cast<PGM_P>(text)); }
  size_t print(const String& text) { return write(text.c_str(), text.length()); }
  size_t print(const char* text) { return write(text); }
  size_t print(char value) { return write(static_cast<uint8_t>(value)); }
  size_t print(const Printable& value) { return value.printTo(*this); }

  // In base 10 signed, in any other base the bit pattern of the type; base 0 writes one raw byte.
  size_t print(unsigned char value, int base = DEC) { return print_unsigned(value, base); }
  size_t print(int value, int base = DEC) {
    return print_signed(value, static_cast<unsigned int>(value), base);
  }
  size_t print(unsigned int value, int base = DEC) { return print_unsigned(value, base); }
  size_t print(long value, int base = DEC) {
    return print_signed(value, static_cast<unsigned long>(value), base);
  }
  size_t print(unsigned long value, int base = DEC) { return print_unsigned(value, base); }
  size_t print(long long value, int base = DEC) {
    return print_signed(value, static_cast<unsigned long long>(value), base);
  }
  size_t print(unsigned long long value, int base = DEC) { return print_unsigned(value, base); }

  // Rounds half away from zero at `digits` decimals; "nan", "inf" for either infinity, "ovf"
  // beyond what 32 bits of integer part hold.
  size_t print(double value, int digits = 2);

  size_t println() { return write("\r\n"); }
  template <typename T>
  size_t println(const T& value) {
    const size_t written = print(value);
    return written + println();
  }
  template <typename T>
  size_t println(const T& value, int base_or_digits) {
    const size_t written = print(value, base_or_digits);
    return written + println();
  }

 protected:
  void setWriteError(int error = 1) { write_error_ = error; }

 private:
  size_t print_signed(long long value, unsigned long long pattern, int base);
  size_t print_unsigned(unsigned long long value, int base);

  int write_error_ = 0;
};
