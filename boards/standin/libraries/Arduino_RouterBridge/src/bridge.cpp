#include "bridge.h"

#include "Arduino.h"

using router_bridge::Head;
using router_bridge::Kind;

BridgeClass Bridge(Serial1);

bool BridgeClass::begin(unsigned long baud) {
  if (started_) {
    return true;
  }
  serial_.begin(baud);
  // Plain text between messages: the router throws away what it held of a call cut short.
  static const char kHello[] = "MCU starting RPC Bridge communication";
  router_bridge::put(reinterpret_cast<const uint8_t*>(kHello), sizeof kHello - 1);
  bool done = false;
  started_ = call("$/reset").result(done) && done;
  return started_;
}

void BridgeClass::begin_parameters(const char* method, uint8_t count) {
  router_bridge::pack(method);
  router_bridge::put_array(count);
}

void BridgeClass::begin_notification(const char* method, uint8_t count) {
  router_bridge::put_array(3);
  router_bridge::pack(kNotification);
  begin_parameters(method, count);
}

void BridgeClass::notify_text(const char* method, const uint8_t* text, size_t size) {
  begin_notification(method, 1);
  router_bridge::put_text(reinterpret_cast<const char*>(text), size);
}

bool BridgeClass::answer_to(uint32_t id, Head& result) {
  for (;;) {
    const Head message = router_bridge::read_head();
    if (message.kind != Kind::kArray || message.size < 3 || message.size > 4) {
      // Bytes that belong to no message, one at a time until a message begins.
      continue;
    }
    int64_t type = -1;
    if (!router_bridge::take_whole(router_bridge::read_head(), type)) {
      continue;
    }
    if (type == kResponse && message.size == 4) {
      int64_t of = -1;
      if (!router_bridge::take_whole(router_bridge::read_head(), of)) {
        continue;
      }
      const Head error = router_bridge::read_head();
      router_bridge::skip(error);
      result = router_bridge::read_head();
      if (of != static_cast<int64_t>(id)) {
        // To a call of before a reset.
        router_bridge::skip(result);
        continue;
      }
      if (error.kind == Kind::kNil) {
        return true;
      }
      router_bridge::skip(result);
      return false;
    }
    int64_t call_id = -1;
    if (type == kRequest && !router_bridge::take_whole(router_bridge::read_head(), call_id)) {
      continue;
    }
    router_bridge::skip(router_bridge::read_head());
    router_bridge::skip(router_bridge::read_head());
    if (type == kRequest) {
      refuse(call_id);
    }
  }
}

void BridgeClass::refuse(int64_t id) {
  router_bridge::put_array(4);
  router_bridge::pack(kResponse);
  router_bridge::put_whole(id);
  router_bridge::put_array(2);
  router_bridge::pack(1);
  router_bridge::pack("the sketch provides no method");
  router_bridge::put_nil();
}
