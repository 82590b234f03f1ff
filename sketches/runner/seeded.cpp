#include "seeded.h"

#include <cstring>

namespace runner {

using executorch::aten::ScalarType;

static uint32_t next(uint32_t& state) {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

bool fill_seeded(void* data, size_t count, ScalarType type, uint32_t seed) {
  uint32_t state = seed ? seed : 1;
  uint8_t* at = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < count; i++) {
    const uint32_t x = next(state);
    switch (type) {
      case ScalarType::Float: {
        const float value =
            static_cast<float>(static_cast<int32_t>(x >> 8) - 8388608) / 8388608.0f;
        memcpy(at + i * sizeof(value), &value, sizeof(value));
        break;
      }
      case ScalarType::Char:
        at[i] = static_cast<uint8_t>(x >> 24);
        break;
      case ScalarType::Int: {
        const int32_t value = static_cast<int32_t>(x);
        memcpy(at + i * sizeof(value), &value, sizeof(value));
        break;
      }
      case ScalarType::Long: {
        const int64_t value = static_cast<int32_t>(x);
        memcpy(at + i * sizeof(value), &value, sizeof(value));
        break;
      }
      case ScalarType::Bool:
        at[i] = static_cast<uint8_t>(x >> 31);
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace runner
