// Holds one model and answers the bench over serial; the protocol is in docs/protocol.md.
//
// What identifies a build stands in this file and in no other: it is the one that every build
// compiles again, so a firmware with a stale nonce is a stale firmware.

#include <ExecuTorch.h>

#include "commands.h"
#include "hil_build.h"

static_assert(sizeof(HIL_BUILD_NONCE) <= 17, "the nonce has at most 16 characters");
static_assert(sizeof(HIL_MODEL_DIGEST) <= 65, "the model's digest has at most 64 characters");
static_assert(sizeof(HIL_LIBRARY_COMMIT) <= 65, "the commit has at most 64 characters");

alignas(16) static uint8_t block[HIL_ARENA_BYTES];

static const runner::Identity identity = {
    HIL_BUILD_NONCE, HIL_MODEL_DIGEST, HIL_LIBRARY_COMMIT, block, sizeof(block)};
static runner::Commands commands(identity);

void setup() {
  Serial.begin(115200);
  commands.announce();
}

void loop() { commands.poll(); }
