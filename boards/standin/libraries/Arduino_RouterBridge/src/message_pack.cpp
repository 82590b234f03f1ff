#include "message_pack.h"

#include "hal.h"

namespace router_bridge {
namespace {

uint64_t big_endian(unsigned bytes) {
  uint64_t value = 0;
  for (; bytes > 0; --bytes) {
    value = value << 8 | next();
  }
  return value;
}

void put_head(uint8_t code, uint64_t value, unsigned bytes) {
  uint8_t head[9] = {code};
  for (unsigned i = 0; i < bytes; ++i) {
    head[1 + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
  }
  put(head, 1 + bytes);
}

}  // namespace

void put(const uint8_t* data, size_t size) { hil::hal::serial_write(data, size); }

uint8_t next() {
  int value = hil::hal::serial_read();
  while (value < 0) {
    hil::hal::serial_wait();
    value = hil::hal::serial_read();
  }
  return static_cast<uint8_t>(value);
}

void put_array(uint8_t size) { put_byte(0x90 | size); }

void put_nil() { put_byte(0xc0); }

void put_whole(uint64_t value) {
  if (value < 0x80) {
    put_byte(static_cast<uint8_t>(value));
  } else if (value <= 0xff) {
    put_head(0xcc, value, 1);
  } else if (value <= 0xffff) {
    put_head(0xcd, value, 2);
  } else if (value <= 0xffffffffu) {
    put_head(0xce, value, 4);
  } else {
    put_head(0xcf, value, 8);
  }
}

void put_whole(int64_t value) {
  if (value >= 0) {
    put_whole(static_cast<uint64_t>(value));
  } else if (value >= -32) {
    put_byte(static_cast<uint8_t>(value));
  } else {
    put_head(0xd3, static_cast<uint64_t>(value), 8);
  }
}

void put_text(const char* text, size_t size) {
  if (size < 32) {
    put_byte(static_cast<uint8_t>(0xa0 | size));
  } else if (size <= 0xff) {
    put_head(0xd9, size, 1);
  } else if (size <= 0xffff) {
    put_head(0xda, size, 2);
  } else {
    put_head(0xdb, size, 4);
  }
  put(reinterpret_cast<const uint8_t*>(text), size);
}

void put_bytes(const uint8_t* data, size_t size) {
  put_head(size <= 0xff ? 0xc4 : size <= 0xffff ? 0xc5 : 0xc6, size,
           size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
  put(data, size);
}

Head read_head() {
  const uint8_t code = next();
  const auto sized = [](Kind kind, unsigned bytes) {
    return Head{kind, static_cast<uint32_t>(big_endian(bytes)), 0};
  };
  const auto whole = [](int64_t value) { return Head{Kind::kWhole, 0, value}; };
  if (code < 0x80) {
    return whole(code);
  }
  if (code < 0x90) {
    return Head{Kind::kMap, static_cast<uint32_t>(code & 0x0f), 0};
  }
  if (code < 0xa0) {
    return Head{Kind::kArray, static_cast<uint32_t>(code & 0x0f), 0};
  }
  if (code < 0xc0) {
    return Head{Kind::kText, static_cast<uint32_t>(code & 0x1f), 0};
  }
  if (code >= 0xe0) {
    return whole(static_cast<int8_t>(code));
  }
  switch (code) {
    case 0xc0: return Head{Kind::kNil, 0, 0};
    case 0xc2: return Head{Kind::kBool, 0, 0};
    case 0xc3: return Head{Kind::kBool, 0, 1};
    case 0xc4: return sized(Kind::kBytes, 1);
    case 0xc5: return sized(Kind::kBytes, 2);
    case 0xc6: return sized(Kind::kBytes, 4);
    case 0xca: return Head{Kind::kOther, 4, 0};
    case 0xcb: return Head{Kind::kOther, 8, 0};
    case 0xcc: return whole(static_cast<int64_t>(big_endian(1)));
    case 0xcd: return whole(static_cast<int64_t>(big_endian(2)));
    case 0xce: return whole(static_cast<int64_t>(big_endian(4)));
    case 0xcf: return whole(static_cast<int64_t>(big_endian(8)));
    case 0xd0: return whole(static_cast<int8_t>(big_endian(1)));
    case 0xd1: return whole(static_cast<int16_t>(big_endian(2)));
    case 0xd2: return whole(static_cast<int32_t>(big_endian(4)));
    case 0xd3: return whole(static_cast<int64_t>(big_endian(8)));
    case 0xd9: return sized(Kind::kText, 1);
    case 0xda: return sized(Kind::kText, 2);
    case 0xdb: return sized(Kind::kText, 4);
    case 0xdc: return sized(Kind::kArray, 2);
    case 0xdd: return sized(Kind::kArray, 4);
    case 0xde: return sized(Kind::kMap, 2);
    case 0xdf: return sized(Kind::kMap, 4);
    default: return Head{Kind::kBroken, 0, 0};
  }
}

void skip(const Head& head) {
  // Values still to pass over, so that nesting takes no stack.
  uint64_t left = 1;
  Head now = head;
  for (;;) {
    if (now.kind == Kind::kText || now.kind == Kind::kBytes || now.kind == Kind::kOther) {
      for (uint32_t i = 0; i < now.size; ++i) {
        next();
      }
    } else if (now.kind == Kind::kArray) {
      left += now.size;
    } else if (now.kind == Kind::kMap) {
      left += 2ull * now.size;
    }
    if (--left == 0) {
      return;
    }
    now = read_head();
  }
}

bool take(const Head& head, bool& result) {
  if (head.kind != Kind::kBool) {
    skip(head);
    return false;
  }
  result = head.whole != 0;
  return true;
}

bool take_whole(const Head& head, int64_t& result) {
  if (head.kind != Kind::kWhole) {
    skip(head);
    return false;
  }
  result = head.whole;
  return true;
}

bool take(const Head& head, String& result) {
  if (head.kind != Kind::kText && head.kind != Kind::kBytes) {
    skip(head);
    return false;
  }
  result = "";
  for (uint32_t i = 0; i < head.size; ++i) {
    result += static_cast<char>(next());
  }
  return true;
}

bool take(const Head& head, Bytes& result) {
  result.size = 0;
  if (head.kind != Kind::kText && head.kind != Kind::kBytes) {
    skip(head);
    return false;
  }
  for (uint32_t i = 0; i < head.size; ++i) {
    const uint8_t value = next();
    if (result.size < result.room) {
      result.data[result.size++] = value;
    }
  }
  return true;
}

}  // namespace router_bridge
