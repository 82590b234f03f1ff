// What a sketch can ask this core beyond the Arduino API.
//
// Instructions are QEMU's: with -icount one executed instruction takes 2^HIL_ICOUNT_SHIFT ns of
// virtual time, so a count is exact and repeats.  It says nothing about time on silicon.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Short name of the board this was built for, e.g. "m33", "host".
const char* hil_board_name(void);

// Whether this board counts instructions (emulated boards do, the host does not).
int hil_has_instruction_count(void);

// Instructions executed since the board started, the time asleep in delay() left out, or -1 where
// they are not counted.  The difference of two readings is exact as long as no delay() lies
// between them; it includes the few instructions of one reading (hil_instruction_overhead).
int64_t hil_instruction_count(void);

// What two readings with nothing between them differ by; subtract it.  0 where not counted.
int64_t hil_instruction_overhead(void);

// Nanoseconds of virtual time since the board started.
uint64_t hil_virtual_time_ns(void);

// Sleeps until a byte can be read from Serial, with no time limit and, on an idle board, at no
// cost to the computer that emulates it.  Virtual time stands still meanwhile.
void hil_wait_for_input(void);

// Most bytes the heap has ever taken from RAM, or -1 where this is not known (the host).
int64_t hil_heap_high_water_bytes(void);

#ifdef __cplusplus
}
#endif
