// Where AVR sketches look for it.
#pragma once

#include "../pgmspace.h"
