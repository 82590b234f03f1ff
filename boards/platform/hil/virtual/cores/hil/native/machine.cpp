// The board as a process on Linux: Serial is stdin and stdout.
//
// delay() moves a virtual clock on instead of sleeping; HIL_REAL_TIME=1 in the environment makes
// it sleep.  At the end of its input the process waits to be ended by its owner, as a board
// outlives the terminal; HIL_EXIT_ON_EOF=1 makes it exit instead, after its last byte is read.
// printf goes to stderr, because a Uno Q does not print it on Serial either.
#if !(defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M')

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../hal.h"
#include "../hil_board.h"

namespace {

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

bool asked_for(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && strcmp(value, "1") == 0;
}

class Process {
 public:
  Process()
      : real_time_(asked_for("HIL_REAL_TIME")),
        exit_on_eof_(asked_for("HIL_EXIT_ON_EOF")),
        serial_out_(dup(STDOUT_FILENO)),
        start_ns_(monotonic_ns()) {
    signal(SIGPIPE, SIG_IGN);
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }

  uint64_t time_ns() const { return monotonic_ns() - start_ns_ + skipped_ns_; }

  void wait_ns(uint64_t duration_ns) {
    if (!real_time_) {
      skipped_ns_ += duration_ns;
      return;
    }
    timespec left{static_cast<time_t>(duration_ns / 1000000000u),
                  static_cast<long>(duration_ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
  }

  // Bytes buffered, after taking in what has arrived; `wait` blocks until there is one.
  size_t fill(bool wait) {
    while (begin_ == end_) {
      if (!readable(wait)) {
        break;
      }
      const ssize_t count = ::read(STDIN_FILENO, buffer_, sizeof(buffer_));
      if (count > 0) {
        begin_ = 0;
        end_ = static_cast<size_t>(count);
      } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
        ended_ = true;
      }
    }
    return end_ - begin_;
  }

  int peek() { return fill(false) == 0 ? -1 : buffer_[begin_]; }

  int read() {
    const int value = peek();
    begin_ += value < 0 ? 0 : 1;
    return value;
  }

  void write(const uint8_t* data, size_t size) {
    while (size > 0) {
      const ssize_t count = ::write(serial_out_, data, size);
      if (count > 0) {
        data += count;
        size -= static_cast<size_t>(count);
      } else if (errno == EAGAIN) {
        pollfd out{serial_out_, POLLOUT, 0};
        poll(&out, 1, -1);
      } else if (errno != EINTR) {
        return;  // nobody reads: dropped, as on a Uno Q
      }
    }
  }

 private:
  bool readable(bool wait) {
    if (ended_) {
      if (exit_on_eof_) {
        _exit(0);
      }
      if (wait) {
        pause();
      }
      return false;
    }
    pollfd in{STDIN_FILENO, POLLIN, 0};
    return poll(&in, 1, wait ? -1 : 0) > 0;
  }

  const bool real_time_;
  const bool exit_on_eof_;
  const int serial_out_;
  const uint64_t start_ns_;
  uint64_t skipped_ns_ = 0;
  bool ended_ = false;
  uint8_t buffer_[4096];
  size_t begin_ = 0;
  size_t end_ = 0;
};

// A function's static, since a sketch's static constructors may print.
Process& process() {
  static Process instance;
  return instance;
}

// In place before setup() whether or not a constructor needed it, so that printf never gets out.
[[maybe_unused]] const Process& in_place = process();

}  // namespace

namespace hil::hal {

uint64_t time_ns() { return process().time_ns(); }
void wait_ns(uint64_t duration_ns) { process().wait_ns(duration_ns); }
size_t serial_available() { return process().fill(false); }
int serial_read() { return process().read(); }
int serial_peek() { return process().peek(); }
void serial_write(const uint8_t* data, size_t size) { process().write(data, size); }

void serial_wait() {
  while (process().fill(true) == 0) {
  }
}

void interrupts_off() {}
void interrupts_on() {}

}  // namespace hil::hal

extern "C" {

int hil_has_instruction_count(void) { return 0; }
int64_t hil_instruction_count(void) { return -1; }
int64_t hil_instruction_overhead(void) { return 0; }
int64_t hil_heap_high_water_bytes(void) { return -1; }

}  // extern "C"

#endif
