#pragma once

#include <cstddef>
#include <cstdint>

#include <ExecuTorch.h>

namespace runner {

// Fills `count` elements of `type` at `data` from a 32-bit xorshift, one step an element; the same
// numbers as the bench's own generator. False for a type the generator is not defined for.
bool fill_seeded(void* data, size_t count, executorch::aten::ScalarType type, uint32_t seed);

}  // namespace runner
