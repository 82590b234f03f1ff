#pragma once

#include <cstddef>
#include <cstdint>

#include "model_host.h"
#include "record.h"

namespace runner {

// What this build is, and the memory it may use.
struct Identity {
  const char* nonce;
  const char* model_digest;
  const char* library_commit;
  uint8_t* block;
  size_t block_bytes;
};

// Reads command lines from Serial and answers each with exactly one record.
class Commands {
 public:
  explicit Commands(const Identity& identity);

  // Says that the board has started.
  void announce();

  // Takes what has arrived.
  void poll();

 private:
  static constexpr size_t kMaxWords = 6;

  struct Command {
    uint32_t sequence = 0;
    const char* verb = "";
    const char* arguments[kMaxWords] = {};
    size_t count = 0;
  };

  void take_line();
  void refuse_line(const char* why);
  void answer(const Command& command);
  void execute(const Command& command);
  void send();

  // Each fills the reply; false when the arguments are not what the verb takes.
  bool hello(const Command& command);
  bool model(const Command& command);
  bool library(const Command& command);
  bool program(const Command& command);
  bool tensor(const Command& command);
  bool load(const Command& command);
  bool fill(const Command& command);
  bool put(const Command& command);
  bool seal(const Command& command);
  bool run(const Command& command);
  bool output(const Command& command);
  bool get(const Command& command);
  bool memory(const Command& command);

  void reply(const Outcome& outcome);

  const Identity& identity_;
  ModelHost host_;
  Record record_;
  uint32_t last_sequence_ = 0;
  bool greeted_ = false;
  char line_[kMaxLine + 1];
  size_t length_ = 0;
  bool too_long_ = false;
};

}  // namespace runner
