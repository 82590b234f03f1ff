#include "Stream.h"

#include "hil_board.h"

namespace {

uint64_t deadline_after_ms(unsigned long timeout_ms) {
  return hil_virtual_time_ns() + static_cast<uint64_t>(timeout_ms) * 1000000u;
}

// Advances a match of `pattern` by one byte: how many of its bytes now match, after a mismatch the
// longest shorter beginning that still does.
size_t advance(const char* pattern, size_t size, size_t matched, char next) {
  for (size_t length = matched + 1; length > 0; --length) {
    if (length <= size && pattern[length - 1] == next &&
        memcmp(pattern, pattern + matched + 1 - length, length - 1) == 0) {
      return length;
    }
  }
  return 0;
}

}  // namespace

int Stream::timedRead() {
  const uint64_t deadline = deadline_after_ms(timeout_ms_);
  do {
    const int value = read();
    if (value >= 0) {
      return value;
    }
  } while (hil_virtual_time_ns() < deadline);
  return -1;
}

int Stream::timedPeek() {
  const uint64_t deadline = deadline_after_ms(timeout_ms_);
  do {
    const int value = peek();
    if (value >= 0) {
      return value;
    }
  } while (hil_virtual_time_ns() < deadline);
  return -1;
}

bool Stream::find_until(const char* target, size_t size, const char* terminator,
                        size_t terminator_size) {
  if (size == 0) {
    return true;
  }
  size_t matched = 0;
  size_t ended = 0;
  for (int value = timedRead(); value >= 0; value = timedRead()) {
    const char next = static_cast<char>(value);
    matched = advance(target, size, matched, next);
    if (matched == size) {
      return true;
    }
    if (terminator_size > 0) {
      ended = advance(terminator, terminator_size, ended, next);
      if (ended == terminator_size) {
        return false;
      }
    }
  }
  return false;
}

int Stream::peek_number(LookaheadMode lookahead, bool allow_point) {
  for (;;) {
    const int value = timedPeek();
    if (value < 0 || value == '-' || (value >= '0' && value <= '9') ||
        (allow_point && value == '.')) {
      return value;
    }
    const bool blank = value == ' ' || value == '\t' || value == '\r' || value == '\n';
    if (lookahead == SKIP_NONE || (lookahead == SKIP_WHITESPACE && !blank)) {
      return -1;
    }
    read();
  }
}

double Stream::parse_number(LookaheadMode lookahead, char ignore, bool allow_point) {
  int value = peek_number(lookahead, allow_point);
  bool negative = false;
  bool fraction = false;
  double number = 0.0;
  double scale = 1.0;
  while (value >= 0) {
    if (value >= '0' && value <= '9') {
      number = number * 10.0 + (value - '0');
      scale *= fraction ? 0.1 : 1.0;
    } else if (value == '-') {
      negative = true;
    } else if (allow_point && value == '.' && !fraction) {
      fraction = true;
    } else if (value != ignore) {
      break;
    }
    read();
    value = timedPeek();
    if (value == '-') {
      break;
    }
  }
  return (negative ? -number : number) * scale;
}

long Stream::parseInt(LookaheadMode lookahead, char ignore) {
  return static_cast<long>(parse_number(lookahead, ignore, false));
}

float Stream::parseFloat(LookaheadMode lookahead, char ignore) {
  return static_cast<float>(parse_number(lookahead, ignore, true));
}

size_t Stream::readBytes(char* buffer, size_t size) {
  size_t count = 0;
  while (count < size) {
    const int value = timedRead();
    if (value < 0) {
      break;
    }
    buffer[count++] = static_cast<char>(value);
  }
  return count;
}

size_t Stream::readBytesUntil(char terminator, char* buffer, size_t size) {
  size_t count = 0;
  while (count < size) {
    const int value = timedRead();
    if (value < 0 || static_cast<char>(value) == terminator) {
      break;
    }
    buffer[count++] = static_cast<char>(value);
  }
  return count;
}

String Stream::readString() {
  String text;
  for (int value = timedRead(); value >= 0; value = timedRead()) {
    text += static_cast<char>(value);
  }
  return text;
}

String Stream::readStringUntil(char terminator) {
  String text;
  for (int value = timedRead(); value >= 0 && static_cast<char>(value) != terminator;
       value = timedRead()) {
    text += static_cast<char>(value);
  }
  return text;
}
