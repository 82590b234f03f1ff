// Stand-in of Arduino_RouterBridge 0.3.0 for the emulated Uno Q: Bridge speaks MessagePack-RPC with
// the router on the board's Linux side, and Monitor is the serial port that USB sees.
//
// Not here, since no sketch of the bench uses it: methods that a sketch provides, TCP, UDP, HCI.
#pragma once

#include "Arduino.h"
#include "bridge.h"
#include "monitor.h"
