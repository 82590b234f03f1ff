// The part of MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md) that calls of the
// router need, straight onto and off a byte stream: nothing is allocated but what a result holds.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "WString.h"

namespace router_bridge {

// The UART to the Linux side; a read waits for its byte, asleep.
void put(const uint8_t* data, size_t size);
uint8_t next();

inline void put_byte(uint8_t value) { put(&value, 1); }
void put_array(uint8_t size);
void put_nil();
void put_whole(uint64_t value);
void put_whole(int64_t value);
void put_text(const char* text, size_t size);
void put_bytes(const uint8_t* data, size_t size);

inline void pack(bool value) { put_byte(value ? 0xc3 : 0xc2); }
inline void pack(int value) { put_whole(static_cast<int64_t>(value)); }
inline void pack(long value) { put_whole(static_cast<int64_t>(value)); }
inline void pack(long long value) { put_whole(static_cast<int64_t>(value)); }
inline void pack(unsigned value) { put_whole(static_cast<uint64_t>(value)); }
inline void pack(unsigned long value) { put_whole(static_cast<uint64_t>(value)); }
inline void pack(unsigned long long value) { put_whole(static_cast<uint64_t>(value)); }
inline void pack(const char* text) { put_text(text, strlen(text)); }
inline void pack(const String& text) { put_text(text.c_str(), text.length()); }

enum class Kind : uint8_t { kNil, kBool, kWhole, kText, kBytes, kArray, kMap, kOther, kBroken };

// The head of one value: for text, bytes and kOther `size` bytes follow, for an array or a map `size`
// values or pairs.
struct Head {
  Kind kind;
  uint32_t size;
  int64_t whole;
};

Head read_head();

// Passes over the rest of a value whose head was read.
void skip(const Head& head);

// The rest of a value as what the caller wants; false, with the value passed over, where it is not.
bool take(const Head& head, bool& result);
bool take(const Head& head, String& result);
bool take_whole(const Head& head, int64_t& result);
inline bool take(const Head& head, int& result) {
  int64_t whole = 0;
  const bool good = take_whole(head, whole);
  result = static_cast<int>(whole);
  return good;
}
inline bool take(const Head& head, unsigned& result) {
  int64_t whole = 0;
  const bool good = take_whole(head, whole);
  result = static_cast<unsigned>(whole);
  return good;
}

// Bytes into a buffer of the caller's; what is too much is dropped.
struct Bytes {
  uint8_t* data;
  size_t room;
  size_t size;
};
bool take(const Head& head, Bytes& result);

}  // namespace router_bridge
