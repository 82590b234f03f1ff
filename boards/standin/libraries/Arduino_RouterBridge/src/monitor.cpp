#include "monitor.h"

BridgeMonitor Monitor(Bridge);

bool BridgeMonitor::begin(unsigned long, uint16_t) {
  if (connected_) {
    return true;
  }
  if (!bridge_.is_started() && !bridge_.begin()) {
    return false;
  }
  bool there = false;
  connected_ = bridge_.call("mon/connected").result(there) && there;
  // The real library asks whether writes need an answer; every router that has a version needs none.
  String version;
  bridge_.getRouterVersion(version);
  return connected_;
}

int BridgeMonitor::available() {
  if (connected_ && count_ < kRoom) {
    // Straight into the ring: at most up to its end, the rest at the next call.
    const unsigned at = (first_ + count_) % kRoom;
    const unsigned until_end = kRoom - at;
    const unsigned free_bytes = kRoom - count_;
    router_bridge::Bytes bytes{held_ + at, until_end < free_bytes ? until_end : free_bytes, 0};
    if (bridge_.call("mon/read", static_cast<unsigned>(bytes.room)).result(bytes)) {
      count_ += bytes.size;
    }
  }
  return static_cast<int>(count_);
}

int BridgeMonitor::read() {
  uint8_t value = 0;
  return read(&value, 1) == 1 ? value : -1;
}

int BridgeMonitor::read(uint8_t* buffer, size_t size) {
  size_t taken = 0;
  for (; taken < size && count_ > 0; --count_) {
    buffer[taken++] = held_[first_];
    first_ = (first_ + 1) % kRoom;
  }
  return static_cast<int>(taken);
}

int BridgeMonitor::peek() { return count_ > 0 ? held_[first_] : -1; }

size_t BridgeMonitor::write(const uint8_t* data, size_t size) {
  if (!bridge_.is_started()) {
    return 0;
  }
  bridge_.notify_text("mon/write", data, size);
  return size;
}

bool BridgeMonitor::reset() {
  bool done = false;
  const bool good = bridge_.call("mon/reset").result(done) && done;
  connected_ = !good;
  return good;
}
