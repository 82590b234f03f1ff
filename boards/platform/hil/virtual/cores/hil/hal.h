// What the Arduino API above needs from the machine below.  There are two implementations:
// cortex_m/ (bare metal, QEMU's machines) and native/ (a process on Linux).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace hil::hal {

// Nanoseconds of virtual time since the board started; never goes back.
uint64_t time_ns();

// Lets at least `duration_ns` of virtual time pass, asleep as far as the machine allows.
void wait_ns(uint64_t duration_ns);

// Bytes received and not yet read.
size_t serial_available();

// Next received byte, or -1; `serial_peek` leaves it in place.
int serial_read();
int serial_peek();

// Returns when all of `data` has been handed over; never drops a byte.
void serial_write(const uint8_t* data, size_t size);

// Sleeps, with no time limit, until a byte can be read.
void serial_wait();

void interrupts_off();
void interrupts_on();

}  // namespace hil::hal
