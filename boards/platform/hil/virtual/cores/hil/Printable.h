#pragma once

#include <stddef.h>

class Print;

// Anything that knows how to print itself.
class Printable {
 public:
  virtual ~Printable() = default;
  virtual size_t printTo(Print& out) const = 0;
};
