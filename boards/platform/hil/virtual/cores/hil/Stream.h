#pragma once

#include "Print.h"
#include "WString.h"

// What a number parser skips before the first digit.
enum LookaheadMode { SKIP_ALL, SKIP_NONE, SKIP_WHITESPACE };

// A byte source that is also a Print.  Timed calls wait up to the timeout (1000 ms of virtual time
// by default) for each byte.  They poll rather than sleep: an emulated board that slept with a
// timer armed would be at its deadline at once, before the sender's next byte.
class Stream : public Print {
 public:
  virtual int available() = 0;
  virtual int read() = 0;
  virtual int peek() = 0;

  void setTimeout(unsigned long timeout_ms) { timeout_ms_ = timeout_ms; }
  unsigned long getTimeout() const { return timeout_ms_; }

  // Whether `target` came before the timeout; reads up to and including it.
  bool find(const char* target) { return find(target, strlen(target)); }
  bool find(const char* target, size_t size) { return find_until(target, size, nullptr, 0); }
  bool find(char target) { return find(&target, 1); }
  bool findUntil(const char* target, const char* terminator) {
    return find_until(target, strlen(target), terminator, strlen(terminator));
  }

  // The next number in the stream, 0 on timeout; the character after it stays unread.
  long parseInt(LookaheadMode lookahead = SKIP_ALL, char ignore = '\x01');
  float parseFloat(LookaheadMode lookahead = SKIP_ALL, char ignore = '\x01');

  // Bytes read before timeout, `size` at most; the terminator is read and not stored.
  size_t readBytes(char* buffer, size_t size);
  size_t readBytes(uint8_t* buffer, size_t size) {
    return readBytes(reinterpret_cast<char*>(buffer), size);
  }
  size_t readBytesUntil(char terminator, char* buffer, size_t size);
  size_t readBytesUntil(char terminator, uint8_t* buffer, size_t size) {
    return readBytesUntil(terminator, reinterpret_cast<char*>(buffer), size);
  }
  String readString();
  String readStringUntil(char terminator);

 protected:
  int timedRead();
  int timedPeek();

 private:
  int peek_number(LookaheadMode lookahead, bool allow_point);
  double parse_number(LookaheadMode lookahead, char ignore, bool allow_point);
  bool find_until(const char* target, size_t size, const char* terminator, size_t terminator_size);

  unsigned long timeout_ms_ = 1000;
};
