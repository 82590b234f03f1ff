#include "commands.h"

#include <Arduino.h>

#include <cstring>

#include "base64.h"
#include "checksum.h"
#include "counter.h"
#include "model_data.h"
#include "runtime_log.h"

namespace runner {

static constexpr uint32_t kProtocolVersion = 1;
static constexpr size_t kChunkBytes = 72;
static const char kMarker[] = "@hil ";
static constexpr size_t kMarkerLength = sizeof(kMarker) - 1;

// Decimal digits only, and no overflow.
static bool parse_number(const char* text, uint32_t& value) {
  uint64_t total = 0;
  if (text == nullptr || *text == 0) {
    return false;
  }
  for (; *text; text++) {
    if (*text < '0' || *text > '9') {
      return false;
    }
    total = total * 10 + static_cast<uint64_t>(*text - '0');
    if (total > 0xFFFFFFFFu) {
      return false;
    }
  }
  value = static_cast<uint32_t>(total);
  return true;
}

static bool parse_crc(const char* text, uint16_t& value) {
  value = 0;
  for (int i = 0; i < 4; i++) {
    const char c = text[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(c >= 'A' && c <= 'F')) {
      return false;
    }
    value = static_cast<uint16_t>(value << 4 | (digit ? c - '0' : c - 'A' + 10));
  }
  return true;
}

Commands::Commands(const Identity& identity)
    : identity_(identity), host_(identity.block, identity.block_bytes) {}

void Commands::announce() {
  record_.begin(identity_.nonce, 0, "boot");
  record_.number("proto", kProtocolVersion);
  send();
}

void Commands::poll() {
  while (Serial.available() > 0) {
    const int c = Serial.read();
    if (c == '\n') {
      take_line();
      length_ = 0;
      too_long_ = false;
    } else if (c >= 0 && c != '\r') {
      if (length_ < kMaxLine) {
        line_[length_++] = static_cast<char>(c);
      } else {
        too_long_ = true;
      }
    }
  }
}

// What stands on a line is untrusted until its checksum is right: before that, no field of it is
// used, not even the sequence number.
void Commands::take_line() {
  if (length_ == 0) {
    return;
  }
  if (too_long_) {
    return refuse_line("long");
  }
  line_[length_] = 0;
  if (length_ < kMarkerLength + 6 || strncmp(line_, kMarker, kMarkerLength) != 0) {
    return refuse_line("marker");
  }
  char* star = line_ + length_ - 5;
  uint16_t crc = 0;
  if (*star != '*' || !parse_crc(star + 1, crc)) {
    return refuse_line("torn");
  }
  char* body = line_ + kMarkerLength;
  if (crc16(body, static_cast<size_t>(star - body)) != crc) {
    return refuse_line("crc");
  }
  *star = 0;

  Command command;
  const char* words[kMaxWords + 2] = {};
  size_t count = 0;
  for (char* at = body; at != nullptr && count < kMaxWords + 2;) {
    words[count++] = at;
    at = strchr(at, ' ');
    if (at != nullptr) {
      *at++ = 0;
    }
  }
  if (count < 2 || count > kMaxWords + 1 || !parse_number(words[0], command.sequence) ||
      command.sequence == 0) {
    return refuse_line("form");
  }
  command.verb = words[1];
  command.count = count - 2;
  for (size_t i = 0; i < command.count; i++) {
    command.arguments[i] = words[i + 2];
  }
  answer(command);
}

void Commands::refuse_line(const char* why) {
  // A record of its own: the cached reply must survive a damaged retransmission.
  static Record refusal;
  refusal.begin(identity_.nonce, 0, "nak");
  refusal.text("why", why);
  if (refusal.finish()) {
    Serial.write(reinterpret_cast<const uint8_t*>(refusal.line()), refusal.length());
  }
}

void Commands::answer(const Command& command) {
  if (greeted_ && command.sequence == last_sequence_) {
    // The reply was lost, or the command was sent twice: answer, do nothing again.
    Serial.write(reinterpret_cast<const uint8_t*>(record_.line()), record_.length());
    return;
  }
  const bool hello = strcmp(command.verb, "hello") == 0;
  if (!hello && !(greeted_ && command.sequence == last_sequence_ + 1)) {
    // Either this board has started anew, or a command is missing.
    return refuse_line(greeted_ ? "order" : "greet");
  }
  greeted_ = true;
  last_sequence_ = command.sequence;
  runtime_log().begin();
  execute(command);
  runtime_log().end();
  send();
}

void Commands::execute(const Command& command) {
  static const struct {
    const char* verb;
    bool (Commands::*action)(const Command&);
  } kActions[] = {
      {"hello", &Commands::hello},     {"model", &Commands::model},
      {"library", &Commands::library}, {"program", &Commands::program},
      {"tensor", &Commands::tensor},   {"load", &Commands::load},
      {"fill", &Commands::fill},       {"put", &Commands::put},
      {"seal", &Commands::seal},       {"run", &Commands::run},
      {"out", &Commands::output},      {"get", &Commands::get},
      {"mem", &Commands::memory},
  };
  for (const auto& each : kActions) {
    if (strcmp(each.verb, command.verb) == 0) {
      record_.begin(identity_.nonce, command.sequence, each.verb);
      if (!(this->*each.action)(command)) {
        record_.begin(identity_.nonce, command.sequence, each.verb);
        reply({"the arguments are not what the verb takes", 0});
      }
      return;
    }
  }
  record_.begin(identity_.nonce, command.sequence, "unknown");
  reply({"there is no such verb", 0});
}

void Commands::send() {
  if (!record_.finish()) {
    record_.begin(identity_.nonce, last_sequence_, "overflow");
    reply({"the reply does not fit a line", 0});
    record_.finish();
  }
  Serial.write(reinterpret_cast<const uint8_t*>(record_.line()), record_.length());
}

void Commands::reply(const Outcome& outcome) {
  record_.number("ok", outcome.ok() ? 1 : 0);
  if (!outcome.ok()) {
    record_.text("stage", outcome.stage);
    record_.number("code", outcome.code);
    if (runtime_log().first_error()[0]) {
      record_.text("msg", runtime_log().first_error());
    }
  }
}

bool Commands::hello(const Command&) {
  reply({});
  record_.number("proto", kProtocolVersion);
  record_.text("unit", count_unit());
  record_.number("block", identity_.block_bytes);
  record_.number("pointer", sizeof(void*));
  return true;
}

bool Commands::model(const Command&) {
  reply({});
  record_.text("digest", identity_.model_digest);
  record_.number("bytes", model_bytes());
  record_.number("crc", crc32(model_data(), model_bytes()));
  return true;
}

bool Commands::library(const Command&) {
  reply({});
  record_.text("commit", identity_.library_commit);
  return true;
}

bool Commands::program(const Command&) {
  const Outcome outcome = host_.open();
  reply(outcome);
  if (outcome.ok()) {
    record_.number("inputs", host_.input_count());
    record_.number("outputs", host_.output_count());
    record_.number("planned", host_.planned_bytes());
    record_.number("limit", host_.arena_limit());
  }
  return true;
}

bool Commands::tensor(const Command& command) {
  uint32_t index = 0;
  if (command.count != 2 || !parse_number(command.arguments[1], index)) {
    return false;
  }
  const bool input = strcmp(command.arguments[0], "in") == 0;
  if (!input && strcmp(command.arguments[0], "out") != 0) {
    return false;
  }
  TensorView view;
  Outcome outcome = host_.open();
  if (outcome.ok()) {
    outcome = input ? host_.input_view(index, view) : host_.output_view(index, view);
  }
  reply(outcome);
  if (outcome.ok()) {
    record_.text("dtype", view.dtype);
    record_.numbers("sizes", view.sizes, view.rank);
    record_.numbers("order", view.order, view.rank);
    record_.number("bytes", view.bytes);
    record_.number("planned", view.planned ? 1 : 0);
  }
  return true;
}

bool Commands::load(const Command& command) {
  uint32_t bytes = 0;
  if (command.count != 1 || !parse_number(command.arguments[0], bytes)) {
    return false;
  }
  const Outcome outcome = host_.load(bytes);
  // First, so that a long message is what gets cut.
  record_.number("used", host_.used_bytes());
  reply(outcome);
  return true;
}

bool Commands::fill(const Command& command) {
  uint32_t index = 0;
  uint32_t seed = 0;
  if (command.count != 2 || !parse_number(command.arguments[0], index) ||
      !parse_number(command.arguments[1], seed)) {
    return false;
  }
  reply(host_.fill(index, seed));
  return true;
}

bool Commands::put(const Command& command) {
  uint32_t index = 0;
  uint32_t offset = 0;
  uint8_t data[kChunkBytes];
  if (command.count != 3 || !parse_number(command.arguments[0], index) ||
      !parse_number(command.arguments[1], offset)) {
    return false;
  }
  const long length = base64_decode(command.arguments[2], data, sizeof(data));
  if (length < 0) {
    return false;
  }
  reply(host_.put(index, offset, data, static_cast<size_t>(length)));
  return true;
}

bool Commands::seal(const Command& command) {
  uint32_t index = 0;
  if (command.count != 1 || !parse_number(command.arguments[0], index)) {
    return false;
  }
  uint32_t crc = 0;
  size_t bytes = 0;
  const Outcome outcome = host_.seal(index, crc, bytes);
  reply(outcome);
  if (outcome.ok()) {
    record_.number("bytes", bytes);
    record_.number("crc", crc);
  }
  return true;
}

bool Commands::run(const Command& command) {
  uint32_t times = 0;
  if (command.count != 1 || !parse_number(command.arguments[0], times) || times == 0) {
    return false;
  }
  Counts counts;
  const Outcome outcome = host_.run(times, counts);
  reply(outcome);
  if (outcome.ok()) {
    record_.number("runs", times);
    record_.text("unit", count_unit());
    record_.number("least", counts.least);
    record_.number("most", counts.most);
    record_.number("total", counts.total);
  }
  return true;
}

bool Commands::output(const Command& command) {
  uint32_t index = 0;
  if (command.count != 1 || !parse_number(command.arguments[0], index)) {
    return false;
  }
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  const Outcome outcome = host_.output(index, data, bytes);
  reply(outcome);
  if (outcome.ok()) {
    record_.number("bytes", bytes);
    record_.number("crc", crc32(data, bytes));
  }
  return true;
}

bool Commands::get(const Command& command) {
  uint32_t index = 0;
  uint32_t offset = 0;
  if (command.count != 2 || !parse_number(command.arguments[0], index) ||
      !parse_number(command.arguments[1], offset)) {
    return false;
  }
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  Outcome outcome = host_.output(index, data, bytes);
  if (outcome.ok() && offset >= bytes) {
    outcome = {"the offset lies outside the output", 0};
  }
  reply(outcome);
  if (outcome.ok()) {
    const size_t left = bytes - offset;
    char text[kChunkBytes / 3 * 4 + 1];
    base64_encode(data + offset, left < kChunkBytes ? left : kChunkBytes, text);
    record_.number("at", offset);
    record_.data("data", text);
  }
  return true;
}

bool Commands::memory(const Command&) {
  reply({});
  record_.number("used", host_.used_bytes());
  record_.number("arena", host_.arena_bytes());
  record_.number("limit", host_.arena_limit());
  return true;
}

}  // namespace runner
