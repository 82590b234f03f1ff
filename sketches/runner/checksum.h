#pragma once

#include <cstddef>
#include <cstdint>

namespace runner {

// CRC-16/CCITT-FALSE, of one line.
uint16_t crc16(const char* data, size_t length);

// CRC-32 as zlib has it, of whole tensors and of the model.
uint32_t crc32(const uint8_t* data, size_t length);

}  // namespace runner
