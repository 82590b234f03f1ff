#pragma once

#include <cstddef>
#include <cstdint>

namespace runner {

// The runtime's own diagnostics, printed as plain lines that begin with `ET| `.
//
// A missing operator prints about 36 lines and a broken model could print without end, so a
// command may print kMaxLines of them; a line that repeats the one before is counted only.
class RuntimeLog {
 public:
  static constexpr uint32_t kMaxLines = 48;

  // Begins a command: forgets the first error and the counts.
  void begin();

  // Ends it: says how many lines were left out.
  void end();

  void take(const char* message);

  // The first line at level error since begin(), "" if none: later ones mostly follow from it.
  const char* first_error() const { return first_error_; }

 private:
  uint32_t printed_ = 0;
  uint32_t left_out_ = 0;
  uint16_t last_crc_ = 0;
  char first_error_[112] = {};
};

RuntimeLog& runtime_log();

}  // namespace runner
