// The Arduino API as sketches for the Uno Q see it: the bench's own core, below in hil/, with the one
// difference that Serial is the Monitor of Arduino_RouterBridge, as from core 0.55 on.
//
// The core's own sources include hil/Arduino.h, where Serial is the UART that leads to the Linux
// side of the board.
#pragma once

#include "hil/Arduino.h"

#ifdef __cplusplus

// The name under which the library knows that UART.
static HardwareSerial& Serial1 = Serial;

#if ARDUINO_LIBRARY_DISCOVERY_PHASE || __has_include(<Arduino_RouterBridge.h>)
#include <Arduino_RouterBridge.h>
#define Serial Monitor
#else
#error "Arduino_RouterBridge is missing: Serial of the Uno Q is a part of it"
#endif

#endif
