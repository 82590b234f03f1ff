// Brings in what the C and C++ libraries call back into.
//
// The recipe links the core as an archive, before those libraries, and nothing of a sketch refers to
// these members of it: the linker would have passed them by when abort() or new asks for them.  The
// bench's own boards link their core whole instead.
#include <stddef.h>

extern void _exit(int status);
extern void __cxa_pure_virtual(void);

__attribute__((used)) static void (*const callbacks[])(void) = {
    (void (*)(void))_exit,
    __cxa_pure_virtual,
};
