#pragma once

#include <cstddef>
#include <cstdint>

namespace runner {

// Longest line either way, marker and newline included.
constexpr size_t kMaxLine = 200;

// Builds one record line in place: @hil {"n":...,"s":...,"v":...}*CRC16
class Record {
 public:
  // Starts anew; `sequence` is that of the command answered, 0 for what nobody asked for.
  void begin(const char* nonce, uint32_t sequence, const char* verb);

  void number(const char* key, uint64_t value);
  void numbers(const char* key, const int32_t* values, size_t count);
  void numbers(const char* key, const uint8_t* values, size_t count);

  // Escapes what JSON and the framing reserve; cuts what does not fit.
  void text(const char* key, const char* value);

  // Text that needs no escaping and must not be cut, such as base64.
  void data(const char* key, const char* value);

  // Closes the record; false when a field did not fit, and the line is then not to be sent.
  bool finish();

  const char* line() const { return line_; }
  size_t length() const { return length_; }

 private:
  // Room for `}*ABCD\n`.
  static constexpr size_t kClosing = 7;

  void key(const char* name);
  void put(char c);
  void put(const char* s);
  void put_number(uint64_t value);
  bool fits(size_t more) const { return length_ + more + kClosing <= kMaxLine; }

  char line_[kMaxLine + 1];
  size_t length_ = 0;
  bool overflow_ = false;
};

}  // namespace runner
