#include "Print.h"

#include <math.h>

size_t Print::write(const uint8_t* data, size_t size) {
  size_t written = 0;
  while (written < size && write(data[written]) == 1) {
    ++written;
  }
  return written;
}

size_t Print::print_signed(long long value, unsigned long long pattern, int base) {
  if (base != DEC || value >= 0) {
    return print_unsigned(pattern, base);
  }
  const size_t sign = write(static_cast<uint8_t>('-'));
  return sign + print_unsigned(0ULL - static_cast<unsigned long long>(value), DEC);
}

size_t Print::print_unsigned(unsigned long long value, int base) {
  if (base == 0) {
    return write(static_cast<uint8_t>(value));
  }
  const unsigned radix = base < 2 || base > 36 ? DEC : static_cast<unsigned>(base);
  char text[8 * sizeof(value)];
  char* const end = text + sizeof(text);
  char* first = end;
  do {
    const unsigned digit = static_cast<unsigned>(value % radix);
    *--first = static_cast<char>(digit < 10 ? '0' + digit : 'A' + digit - 10);
    value /= radix;
  } while (value != 0);
  return write(first, static_cast<size_t>(end - first));
}

size_t Print::print(double value, int digits) {
  if (isnan(value)) {
    return write("nan");
  }
  if (isinf(value)) {
    return write("inf");
  }
  // The largest float below 2^32; a bound in float, since Arduino's double often is one.
  constexpr double kLargest = 4294967040.0;
  if (value > kLargest || value < -kLargest) {
    return write("ovf");
  }
  if (digits < 0) {
    digits = 2;
  }
  size_t written = 0;
  if (value < 0.0) {
    written += write(static_cast<uint8_t>('-'));
    value = -value;
  }
  double half = 0.5;
  for (int i = 0; i < digits; ++i) {
    half /= 10.0;
  }
  value += half;
  const unsigned long whole = static_cast<unsigned long>(value);
  double fraction = value - static_cast<double>(whole);
  written += print_unsigned(whole, DEC);
  if (digits == 0) {
    return written;
  }
  written += write(static_cast<uint8_t>('.'));
  for (int i = 0; i < digits; ++i) {
    fraction *= 10.0;
    const unsigned digit = static_cast<unsigned>(fraction);
    written += print_unsigned(digit, DEC);
    fraction -= digit;
  }
  return written;
}
