// Program memory is ordinary memory here; these exist so that sketches written for AVR compile.
#pragma once

#include <stdint.h>
#include <string.h>

#define PROGMEM
#define PGM_P const char*
#define PSTR(text) (text)
#define pgm_read_byte(address) (*(const uint8_t*)(address))
#define pgm_read_word(address) (*(const uint16_t*)(address))
#define pgm_read_dword(address) (*(const uint32_t*)(address))
#define pgm_read_float(address) (*(const float*)(address))
#define pgm_read_ptr(address) (*(const void* const*)(address))
#define memcpy_P memcpy
#define memcmp_P memcmp
#define strlen_P strlen
#define strcpy_P strcpy
#define strncpy_P strncpy
#define strcmp_P strcmp
#define strncmp_P strncmp
#define strcat_P strcat
#define strstr_P strstr
