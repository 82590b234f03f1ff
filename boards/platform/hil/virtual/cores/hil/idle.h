// Tells an idle sketch from a busy one: see HardwareSerial.h.
#pragma once

namespace hil::idle {

// The sketch did something besides asking for input: looked at the clock, printed, read a byte.
void busy();

// The sketch asked for input and there was none; may sleep until there is.
void polled();

}  // namespace hil::idle
