// QEMU mps2-an505 (Cortex-M33): hw/arm/mps2-tz.c, and Arm's application note AN505.
#pragma once

#define HIL_CLOCK_HZ 20000000u
#define HIL_UART0 0x40200000u
#define HIL_UART1 0x40201000u
#define HIL_UART0_RX_IRQ 32
#define HIL_FPGAIO 0x40302000u
// The code memory, also where the Non-secure state would see it.
#define HIL_GUARDS {0x10000000u, 22, READ_ONLY}, {0x00000000u, 22, READ_ONLY}
