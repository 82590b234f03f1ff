// QEMU mps3-an547 (Cortex-M55 in an SSE-300): hw/arm/mps2-tz.c and armsse.c, and Arm's application
// note AN547.
#pragma once

#define HIL_CLOCK_HZ 32000000u
#define HIL_UART0 0x49303000u
#define HIL_UART1 0x49304000u
#define HIL_UART0_RX_IRQ 33
#define HIL_SYSTEM_COUNTER 0x58101000u
#define HIL_SYSTEM_COUNTER_CONTROL 0x58100000u
// The memory with the vectors, and the code memory.
#define HIL_GUARDS {0x00000000u, 19, READ_ONLY}, {0x01000000u, 21, READ_ONLY}
