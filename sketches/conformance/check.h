// One line "name=value" a check.  In a header because the Arduino builder writes prototypes for the
// functions of a sketch and gets templates wrong.
#pragma once

#include <Arduino.h>

static unsigned checks_done;

template <typename T, typename... Format>
void check(const char* name, const T& value, Format... base_or_digits) {
  Serial.print(name);
  Serial.print('=');
  Serial.println(value, base_or_digits...);
  ++checks_done;
}

template <typename... Arguments>
void check_format(const char* name, const char* format, Arguments... arguments) {
  char text[80];
  snprintf(text, sizeof(text), format, arguments...);
  check(name, text);
}
