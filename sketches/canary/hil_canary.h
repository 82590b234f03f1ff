#pragma once

#include <stddef.h>
#include <stdint.h>

// First line of setup(): scans and paints what the model does not use of its pool.
void hil_canary_begin(uint8_t* pool, size_t bytes);

// First line of loop(): looks again and prints two records, once.
void hil_canary_end();
