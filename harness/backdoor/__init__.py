"""The way to a board's microcontroller that is not its port: adb, and the debugger on the board."""
