#pragma once

#include <cstddef>
#include <cstdint>

namespace runner {

// The program that this firmware holds, in flash.
const uint8_t* model_data();
size_t model_bytes();

}  // namespace runner
