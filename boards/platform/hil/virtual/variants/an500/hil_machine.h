// QEMU mps2-an500 (Cortex-M7): hw/arm/mps2.c, and Arm's application note AN500.
#pragma once

#define HIL_CLOCK_HZ 25000000u
#define HIL_UART0 0x40004000u
#define HIL_UART1 0x40005000u
#define HIL_UART0_RX_IRQ 0
#define HIL_FPGAIO 0x40028000u
// The code memory, and the gap below RAM.
#define HIL_GUARDS {0x00000000u, 22, READ_ONLY}, {0x10000000u, 28, NONE}
