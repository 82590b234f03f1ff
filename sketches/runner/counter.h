#pragma once

#include <Arduino.h>

#include <cstdint>

#if __has_include(<hil_board.h>)
#include <hil_board.h>
#define RUNNER_ON_VIRTUAL_BOARD 1
#endif

namespace runner {

// What an inference is counted in: instructions where the board counts them, microseconds on
// silicon, nothing on the host board, whose microseconds belong to no chip.
inline const char* count_unit() {
#ifdef RUNNER_ON_VIRTUAL_BOARD
  return hil_has_instruction_count() ? "instructions" : "none";
#else
  return "us";
#endif
}

inline uint64_t count_now() {
#ifdef RUNNER_ON_VIRTUAL_BOARD
  return hil_has_instruction_count() ? static_cast<uint64_t>(hil_instruction_count()) : 0;
#else
  return micros();
#endif
}

// What count_now() itself adds to the difference of two of its values.
inline uint64_t count_overhead() {
#ifdef RUNNER_ON_VIRTUAL_BOARD
  return hil_has_instruction_count() ? static_cast<uint64_t>(hil_instruction_overhead()) : 0;
#else
  return 0;
#endif
}

}  // namespace runner
