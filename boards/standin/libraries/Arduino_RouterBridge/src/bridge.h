#pragma once

#include <stdint.h>

#include "HardwareSerial.h"
#include "message_pack.h"

// Remote calls to the router.  A call waits for its answer, asleep and without a limit: when the
// router does not run, a sketch stops there, as on the board.
class BridgeClass {
 public:
  explicit BridgeClass(HardwareSerial& serial) : serial_(serial) {}

  // Tells the router that the sketch has started, whatever it held of an earlier one's calls.
  bool begin(unsigned long baud = 115200);

  bool is_started() const { return started_; }
  explicit operator bool() const { return started_; }

  bool getRouterVersion(String& version) { return call("$/version").result(version); }

  // The answer of a call that was sent.  Each is read exactly once.
  class Answer {
   public:
    Answer(BridgeClass& bridge, uint32_t id) : bridge_(bridge), id_(id) {}
    ~Answer() { result(); }
    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

    // False when the router answered with an error, or with something else than is wanted.
    template <typename Result>
    bool result(Result& wanted) {
      if (read_) {
        return false;
      }
      read_ = true;
      router_bridge::Head head;
      return bridge_.answer_to(id_, head) && router_bridge::take(head, wanted);
    }

    bool result() {
      if (read_) {
        return false;
      }
      read_ = true;
      router_bridge::Head head;
      if (!bridge_.answer_to(id_, head)) {
        return false;
      }
      router_bridge::skip(head);
      return true;
    }

   private:
    BridgeClass& bridge_;
    const uint32_t id_;
    bool read_ = false;
  };

  template <typename... Values>
  Answer call(const char* method, const Values&... values) {
    const uint32_t id = ++last_id_;
    router_bridge::put_array(4);
    router_bridge::pack(kRequest);
    router_bridge::pack(id);
    begin_parameters(method, sizeof...(values));
    (router_bridge::pack(values), ...);
    return Answer(*this, id);
  }

  template <typename... Values>
  void notify(const char* method, const Values&... values) {
    begin_notification(method, sizeof...(values));
    (router_bridge::pack(values), ...);
  }

  // A notification with one text of `size` bytes, whatever they are.
  void notify_text(const char* method, const uint8_t* text, size_t size);

 private:
  static constexpr int kRequest = 0;
  static constexpr int kResponse = 1;
  static constexpr int kNotification = 2;

  void begin_parameters(const char* method, uint8_t count);
  void begin_notification(const char* method, uint8_t count);

  // Reads up to the result of the call `id`; false when it was an error, which is passed over.
  bool answer_to(uint32_t id, router_bridge::Head& result);

  // Answers a call to a method of the sketch's: it has none.
  void refuse(int64_t id);

  HardwareSerial& serial_;
  uint32_t last_id_ = 0;
  bool started_ = false;
};

extern BridgeClass Bridge;
