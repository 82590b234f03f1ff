// Around every sleep, so that the instruction count goes on from where it stopped.
#pragma once

#include <stdint.h>

namespace hil {

// The virtual moment at which a sleep ends is no whole number of instructions after the last one:
// counting from before it, two differences of the same work would be rounded differently.
class Sleeping {
 public:
  Sleeping();
  ~Sleeping();
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;

 private:
  const int64_t counted_;
};

}  // namespace hil
