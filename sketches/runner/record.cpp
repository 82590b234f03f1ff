#include "record.h"

#include <cstring>

#include "checksum.h"

namespace runner {

static const char kMarker[] = "@hil ";
static const char kHex[] = "0123456789ABCDEF";

void Record::begin(const char* nonce, uint32_t sequence, const char* verb) {
  length_ = 0;
  overflow_ = false;
  put(kMarker);
  put('{');
  text("n", nonce);
  number("s", sequence);
  text("v", verb);
}

void Record::number(const char* name, uint64_t value) {
  key(name);
  put_number(value);
}

void Record::numbers(const char* name, const int32_t* values, size_t count) {
  key(name);
  put('[');
  for (size_t i = 0; i < count; i++) {
    if (i) {
      put(',');
    }
    put_number(static_cast<uint32_t>(values[i]));
  }
  put(']');
}

void Record::numbers(const char* name, const uint8_t* values, size_t count) {
  key(name);
  put('[');
  for (size_t i = 0; i < count; i++) {
    if (i) {
      put(',');
    }
    put_number(values[i]);
  }
  put(']');
}

void Record::text(const char* name, const char* value) {
  key(name);
  put('"');
  for (const char* c = value; *c; c++) {
    const uint8_t byte = static_cast<uint8_t>(*c);
    // '@' would let a marker occur inside a record, '*' is left: the checksum is the last one.
    const bool plain = byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\' && byte != '@';
    if (!fits(plain ? 2 : 7)) {
      break;
    }
    if (plain) {
      put(*c);
    } else {
      put("\\u00");
      put(kHex[byte >> 4]);
      put(kHex[byte & 15]);
    }
  }
  put('"');
}

void Record::data(const char* name, const char* value) {
  key(name);
  put('"');
  put(value);
  put('"');
}

bool Record::finish() {
  // The body begins after the marker and ends with the brace.
  const size_t start = sizeof(kMarker) - 1;
  line_[length_++] = '}';
  const uint16_t crc = crc16(line_ + start, length_ - start);
  line_[length_++] = '*';
  for (int shift = 12; shift >= 0; shift -= 4) {
    line_[length_++] = kHex[(crc >> shift) & 15];
  }
  line_[length_++] = '\n';
  line_[length_] = 0;
  return !overflow_;
}

void Record::key(const char* name) {
  if (line_[length_ - 1] != '{') {
    put(',');
  }
  put('"');
  put(name);
  put("\":");
}

void Record::put(char c) {
  if (!fits(1)) {
    overflow_ = true;
    return;
  }
  line_[length_++] = c;
}

void Record::put(const char* s) {
  while (*s) {
    put(*s++);
  }
}

void Record::put_number(uint64_t value) {
  char digits[20];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value);
  while (count) {
    put(digits[--count]);
  }
}

}  // namespace runner
