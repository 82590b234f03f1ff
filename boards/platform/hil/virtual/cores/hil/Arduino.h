// The Arduino API of the bench's virtual boards: what the ExecuTorch library, its examples and the
// bench's own sketches use, with the meaning Arduino gives it.
#pragma once

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
// Their contents would not survive the macros at the end of this file, so they come first; a
// header that a sketch includes later then finds them done.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#endif

#include "hil_board.h"
#include "pgmspace.h"

typedef uint8_t byte;
typedef bool boolean;
typedef uint16_t word;

#define HIGH 1
#define LOW 0
#define INPUT 0
#define OUTPUT 1
#define INPUT_PULLUP 2
#define LED_BUILTIN 13

#define PI 3.1415926535897932384626433832795
#define HALF_PI 1.5707963267948966192313216916398
#define TWO_PI 6.283185307179586476925286766559
#define DEG_TO_RAD 0.017453292519943295769236907684886
#define RAD_TO_DEG 57.295779513082320876798154814105
#define EULER 2.718281828459045235360287471352

#define radians(deg) ((deg) * DEG_TO_RAD)
#define degrees(rad) ((rad) * RAD_TO_DEG)
#define sq(x) ((x) * (x))

#define lowByte(w) ((uint8_t)((w) & 0xff))
#define highByte(w) ((uint8_t)((w) >> 8))
#define bit(b) (1UL << (b))
#define bitRead(value, b) (((value) >> (b)) & 0x01)
#define bitSet(value, b) ((value) |= (1UL << (b)))
#define bitClear(value, b) ((value) &= ~(1UL << (b)))
#define bitWrite(value, b, on) ((on) ? bitSet(value, b) : bitClear(value, b))

#ifdef __cplusplus
extern "C" {
#endif

unsigned long millis(void);
unsigned long micros(void);
void delay(unsigned long duration_ms);
void delayMicroseconds(unsigned int duration_us);
void yield(void);

void interrupts(void);
void noInterrupts(void);

// Pins hold what was last written to them; nothing is connected.
void pinMode(uint8_t pin, uint8_t mode);
void digitalWrite(uint8_t pin, uint8_t level);
int digitalRead(uint8_t pin);
int analogRead(uint8_t pin);
void analogWrite(uint8_t pin, int value);

#ifdef __cplusplus
}

long map(long x, long in_min, long in_max, long out_min, long out_max);
long random(long below);
long random(long from, long below);
void randomSeed(unsigned long seed);

#include "HardwareSerial.h"
#include "Print.h"
#include "Printable.h"
#include "Stream.h"
#include "WString.h"
#endif

// The sketch.
#ifdef __cplusplus
void setup();
void loop();
#endif

// Macros, as many cores have them, so that code which cannot live with them is found here.
#undef min
#undef max
#undef abs
#undef round
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define abs(x) ((x) > 0 ? (x) : -(x))
#define round(x) ((x) >= 0 ? (long)((x) + 0.5) : (long)((x) - 0.5))
#define constrain(x, low, high) ((x) < (low) ? (low) : ((x) > (high) ? (high) : (x)))
