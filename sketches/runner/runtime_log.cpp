#include "runtime_log.h"

#include <Arduino.h>

#include <cstring>

#include "checksum.h"

namespace runner {

static void print_line(const char* text, size_t length) {
  // One write a line: a transport that sends each print by itself then cannot split it.
  static char line[272];
  static const char prefix[] = "ET| ";
  size_t used = sizeof(prefix) - 1;
  memcpy(line, prefix, used);
  for (size_t i = 0; i < length && used < sizeof(line) - 1; i++) {
    const char c = text[i];
    line[used++] = (c >= 0x20 && c < 0x7F) ? c : '?';
  }
  line[used++] = '\n';
  Serial.write(reinterpret_cast<const uint8_t*>(line), used);
}

void RuntimeLog::begin() {
  printed_ = left_out_ = 0;
  last_crc_ = 0;
  first_error_[0] = 0;
}

void RuntimeLog::end() {
  if (left_out_ == 0) {
    return;
  }
  char text[48];
  size_t used = 0;
  char digits[10];
  size_t count = 0;
  for (uint32_t rest = left_out_; rest || count == 0; rest /= 10) {
    digits[count++] = static_cast<char>('0' + rest % 10);
  }
  text[used++] = '(';
  while (count) {
    text[used++] = digits[--count];
  }
  static const char tail[] = " lines more, not shown)";
  memcpy(text + used, tail, sizeof(tail) - 1);
  print_line(text, used + sizeof(tail) - 1);
  left_out_ = 0;
}

void RuntimeLog::take(const char* message) {
  const size_t length = strlen(message);
  if (message[0] == 'E' && first_error_[0] == 0) {
    // The place in the sources is in the printed line; here the text matters.
    const char* text = strstr(message, "] ");
    strncpy(first_error_, text ? text + 2 : message, sizeof(first_error_) - 1);
  }
  const uint16_t crc = crc16(message, length);
  if (printed_ >= kMaxLines || (printed_ && crc == last_crc_)) {
    left_out_++;
    return;
  }
  last_crc_ = crc;
  printed_++;
  print_line(message, length);
}

RuntimeLog& runtime_log() {
  static RuntimeLog log;
  return log;
}

}  // namespace runner

// The library's hook for its diagnostics; without it they are dropped.
extern "C" void et_arduino_log(const char* message) { runner::runtime_log().take(message); }
