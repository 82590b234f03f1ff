#include "checksum.h"

namespace runner {

uint16_t crc16(const char* data, size_t length) {
  uint16_t crc = 0xFFFF;
  for (size_t i = 0; i < length; i++) {
    crc ^= static_cast<uint16_t>(static_cast<uint8_t>(data[i]) << 8);
    for (int bit = 0; bit < 8; bit++) {
      crc = static_cast<uint16_t>((crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1);
    }
  }
  return crc;
}

uint32_t crc32(const uint8_t* data, size_t length) {
  // Half a byte at a time: a sixteen-entry table, where a full one would take 1 KB of flash.
  static constexpr uint32_t kTable[16] = {
      0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
      0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
      0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 0; i < length; i++) {
    crc ^= data[i];
    crc = kTable[crc & 15] ^ (crc >> 4);
    crc = kTable[crc & 15] ^ (crc >> 4);
  }
  return ~crc;
}

}  // namespace runner
