// Finds memory that a sketch's globals share with the stack or heap that its core reserves, even
// where the sketch ran and printed the right answer.  What it can and cannot find: docs/arena.md.
//
// Three looks, none of which needs to know the core:
//   - the pool's tail, which the model never uses: was it zero when setup() began, and did the
//     paint in it survive the run?
//   - where the stack is, and where blocks from malloc come from;
//   - where the linker names the reservation: how much of stack and heap nobody ever wrote.

#include "hil_canary.h"

#include <Arduino.h>
#include <stdlib.h>

#include "hil_canary_id.h"
#include "record.h"

// Weak: a core that does not name its reservation leaves these at address 0.
extern "C" {
extern uint8_t __hil_globals_end[] __attribute__((weak));
extern uint8_t __hil_heap_start[] __attribute__((weak));
extern uint8_t __hil_heap_end[] __attribute__((weak));
extern uint8_t __hil_stack_start[] __attribute__((weak));
extern uint8_t __hil_stack_end[] __attribute__((weak));
}

namespace {

constexpr uint8_t kPaint = 0xA5;
constexpr uintptr_t kLiveStackBytes = 256;
constexpr uintptr_t kGranule = 64;

struct Range {
  uintptr_t from = 0;
  uintptr_t to = 0;  // not included
};

volatile uint8_t* at(uintptr_t address) { return reinterpret_cast<volatile uint8_t*>(address); }

uintptr_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

Range pool_;
Range tail_;
Range foreign_;  // what was not zero in the tail; left as it was, and widened to whole granules
uint32_t foreign_bytes_ = 0;
Range stack_;
Range heap_;
bool ended_ = false;

void paint(uintptr_t from, uintptr_t to) {
  for (uintptr_t address = from; address < to; address++) {
    *at(address) = kPaint;
  }
}

// What of a reservation no global claims.
Range free_part(const uint8_t* start, const uint8_t* end) {
  const uintptr_t globals_end = address_of(__hil_globals_end);
  Range part;
  part.from = globals_end > address_of(start) ? globals_end : address_of(start);
  part.to = address_of(end);
  return globals_end == 0 || part.to <= part.from ? Range() : part;
}

// Before any other constructor: nothing has taken from the heap yet, and of the stack only what this
// very function stands on is in use.
__attribute__((constructor(101))) void paint_reservation() {
  const uintptr_t here = address_of(__builtin_frame_address(0)) - kLiveStackBytes;
  heap_ = free_part(__hil_heap_start, __hil_heap_end);
  stack_ = free_part(__hil_stack_start, __hil_stack_end);
  if (here > stack_.from && here < stack_.to) {
    stack_.to = here;
  }
  paint(heap_.from, heap_.to);
  paint(stack_.from, stack_.to);
}

struct Heap {
  uintptr_t low = 0;
  uintptr_t high = 0;
};

// Takes what the heap has in ever smaller blocks, notes where they lie and gives them back.
Heap probe_heap() {
  constexpr size_t kMost = 48;
  void* volatile blocks[kMost];
  size_t count = 0;
  Heap heap;
  for (size_t size = HIL_CANARY_LARGEST_BLOCK; size >= 64 && count < kMost;) {
    void* volatile block = malloc(size);
    if (block == nullptr) {
      size /= 2;
      continue;
    }
    blocks[count++] = block;
    const uintptr_t from = address_of(block);
    heap.low = heap.low == 0 || from < heap.low ? from : heap.low;
    heap.high = from + size > heap.high ? from + size : heap.high;
  }
  while (count) {
    free(blocks[--count]);
  }
  return heap;
}

void send(runner::Record& record) {
  if (record.finish()) {
    Serial.write(reinterpret_cast<const uint8_t*>(record.line()), record.length());
  }
}

void report_tail() {
  uint32_t changed = 0;
  Range where;
  for (uintptr_t address = tail_.from; address < tail_.to; address++) {
    const bool painted = address < foreign_.from || address >= foreign_.to;
    if (painted && *at(address) != kPaint) {
      changed++;
      where.from = where.from == 0 ? address : where.from;
      where.to = address + 1;
    }
  }
  runner::Record record;
  record.begin(HIL_CANARY_ID, 0, "canary");
  record.number("pool", pool_.from);
  record.number("bytes", pool_.to - pool_.from);
  record.number("tail", tail_.to - tail_.from);
  record.number("foreign", foreign_bytes_);
  record.number("at", foreign_bytes_ ? foreign_.from : 0);
  record.number("changed", changed);
  record.number("first", where.from);
  record.number("last", where.to);
  send(record);
}

// Bytes that nobody wrote: of the stack from its far end on, of the heap up to its end.
void report_reach(uintptr_t stack) {
  uintptr_t deepest = stack_.from;
  while (deepest < stack_.to && *at(deepest) == kPaint) {
    deepest++;
  }
  uintptr_t highest = heap_.to;
  while (highest > heap_.from && *at(highest - 1) == kPaint) {
    highest--;
  }
  const Heap heap = probe_heap();
  runner::Record record;
  record.begin(HIL_CANARY_ID, 0, "reach");
  record.number("stack", stack);
  record.number("low", heap.low);
  record.number("high", heap.high);
  record.number("stacked", stack_.to - stack_.from);
  record.number("unused", deepest - stack_.from);
  record.number("heaped", heap_.to - heap_.from);
  record.number("spare", heap_.to - highest);
  send(record);
}

}  // namespace

void hil_canary_begin(uint8_t* pool, size_t bytes) {
  pool_.from = address_of(pool);
  pool_.to = pool_.from + bytes;
  tail_ = pool_;
  tail_.from += HIL_CANARY_USED < bytes ? HIL_CANARY_USED : bytes;
  // Startup has zeroed every global: what is not zero here, another owner of this memory wrote.
  for (uintptr_t address = tail_.from; address < tail_.to; address++) {
    if (*at(address) != 0) {
      foreign_.from = foreign_bytes_ == 0 ? address & ~(kGranule - 1) : foreign_.from;
      foreign_.to = (address | (kGranule - 1)) + 1;
      foreign_bytes_++;
    }
  }
  if (foreign_bytes_ == 0) {
    paint(tail_.from, tail_.to);
    return;
  }
  // Painting over it would break whoever it belongs to, and with it the report.
  paint(tail_.from, foreign_.from < tail_.to ? foreign_.from : tail_.to);
  paint(foreign_.to > tail_.from ? foreign_.to : tail_.from, tail_.to);
}

void hil_canary_end() {
  if (ended_) {
    return;
  }
  ended_ = true;
  report_tail();
  report_reach(address_of(__builtin_frame_address(0)));
}
