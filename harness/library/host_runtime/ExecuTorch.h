// The ExecuTorch runtime for a sketch on the host lane: the wheel's headers, under the name that
// sketches include.

#pragma once

// The wheel's runtime was built with these; a sketch must see the same classes.
#ifndef C10_USING_CUSTOM_GENERATED_MACROS
#define C10_USING_CUSTOM_GENERATED_MACROS
#endif

// Arduino.h defines these as macros, and the runtime's templates use the names.
#undef abs
#undef max
#undef min
#undef round

#include <executorch/extension/data_loader/buffer_data_loader.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/method_meta.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

// A sketch that defines this sees what the runtime logs, one line a call and without a newline.
extern "C" void et_arduino_log(const char* line);
