#pragma once

#include <cstddef>
#include <cstdint>

namespace runner {

// Writes 4 * ((length + 2) / 3) characters and a terminating zero.
void base64_encode(const uint8_t* data, size_t length, char* text);

// Decoded length, or -1 when `text` is not base64 or would not fit `capacity` bytes.
long base64_decode(const char* text, uint8_t* data, size_t capacity);

}  // namespace runner
