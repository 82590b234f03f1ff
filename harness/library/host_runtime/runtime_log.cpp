// Hands what the wheel's runtime logs to the sketch, in the form the Arduino library uses.

#include <executorch/runtime/platform/platform.h>

#include <cstdio>

extern "C" __attribute__((weak)) void et_arduino_log(const char* line) { (void)line; }

namespace {

void forward(et_timestamp_t, et_pal_log_level_t level, const char* file, const char*, size_t line,
             const char* message, size_t) {
  char text[256];
  std::snprintf(text, sizeof(text), "%c [ET:%s:%zu] %s", static_cast<char>(level), file, line,
                message);
  et_arduino_log(text);
}

// The runtime is a shared library, so it is complete before this program's own initialisers run.
[[maybe_unused]] const bool registered = executorch::runtime::register_pal(
    executorch::runtime::PalImpl::create(forward, __FILE__));

}  // namespace
