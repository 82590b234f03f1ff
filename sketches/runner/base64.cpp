#include "base64.h"

namespace runner {

static const char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int digit_value(char c) {
  for (int i = 0; i < 64; i++) {
    if (kDigits[i] == c) {
      return i;
    }
  }
  return -1;
}

void base64_encode(const uint8_t* data, size_t length, char* text) {
  for (size_t i = 0; i < length; i += 3) {
    const size_t left = length - i;
    uint32_t bits = static_cast<uint32_t>(data[i]) << 16;
    if (left > 1) {
      bits |= static_cast<uint32_t>(data[i + 1]) << 8;
    }
    if (left > 2) {
      bits |= data[i + 2];
    }
    *text++ = kDigits[bits >> 18];
    *text++ = kDigits[(bits >> 12) & 63];
    *text++ = left > 1 ? kDigits[(bits >> 6) & 63] : '=';
    *text++ = left > 2 ? kDigits[bits & 63] : '=';
  }
  *text = 0;
}

long base64_decode(const char* text, uint8_t* data, size_t capacity) {
  size_t length = 0;
  while (*text) {
    uint32_t bits = 0;
    int digits = 0;
    for (; digits < 4 && text[digits] && text[digits] != '='; digits++) {
      const int value = digit_value(text[digits]);
      if (value < 0) {
        return -1;
      }
      bits |= static_cast<uint32_t>(value) << (18 - 6 * digits);
    }
    if (digits < 2) {
      return -1;
    }
    for (int i = digits; i < 4; i++) {
      if (text[i] != '=') {
        return -1;
      }
    }
    text += 4;
    if (digits < 4 && *text) {
      return -1;
    }
    for (int i = 0; i < digits - 1; i++) {
      if (length == capacity) {
        return -1;
      }
      data[length++] = static_cast<uint8_t>(bits >> (16 - 8 * i));
    }
  }
  return static_cast<long>(length);
}

}  // namespace runner
