// A process on this computer: nothing to say about the hardware.
#pragma once
