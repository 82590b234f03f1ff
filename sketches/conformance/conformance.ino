// What the core promises, one line "name=value" a check; tests/emulated/test_core.py has the
// values.  They are the same on every board, since they are Arduino's and C's, not the machine's.
//
// After "done=<number of lines>" it answers each line of input with "received=<bytes>:<sum>", after
// having looked away for a while: what came meanwhile must not be lost.

#include <inttypes.h>

#include "check.h"
#include "memory_stream.h"

static char order[8];
static size_t ordered;

// Notes that it was constructed: static constructors run before setup(), in order, and may use
// what the core offers.
struct Ordered {
  explicit Ordered(char name) : at_ms(millis()) { order[ordered++] = name; }
  unsigned long at_ms;
};

static Ordered first('a');
static Ordered second('b');
static Ordered third('c');

static int initialised = 41;
static int zeroed;
alignas(64) static uint8_t aligned[64];

static void start_up() {
  check("constructors", order);
  check("constructor_clock", first.at_ms <= third.at_ms && second.at_ms <= millis());
  check("data", initialised++);
  check("bss", zeroed++);
  check("alignment", reinterpret_cast<uintptr_t>(aligned) % 64);
}

static void integers() {
  check("int", -32768);
  check("int_least", static_cast<int>(-2147483647 - 1));
  check("long_long_least", -9223372036854775807LL - 1);
  check("unsigned_long_long_most", 18446744073709551615ULL);
  check("byte", static_cast<uint8_t>(200));
  check("char", 'x');
  check("bool", true);
  check("hex", 255, HEX);
  check("hex_negative", -1, HEX);
  check("hex_long_long", -1LL, HEX);
  check("hex_byte", static_cast<uint8_t>(0xa5), HEX);
  check("bin", 10, BIN);
  check("bin_zero", 0, BIN);
  check("oct", 64, OCT);
  check("base_36", 1295, 36);
  check("base_1", 1295, 1);
  check("base_0", 65, 0);
  check("size", sizeof(uint64_t));
}

static void decimals() {
  check("float", 3.14159f);
  check("float_half", 0.125f);
  check("float_half_negative", -0.125f);
  check("float_logit", 8.946f);
  check("float_carry", 1.999f);
  check("float_digits", 3.14159265, 5);
  check("float_no_digits", 2.5, 0);
  check("float_no_digits_negative", -2.5, 0);
  check("float_small_negative", -0.001);
  check("float_negative_zero", -0.0);
  check("float_nan", NAN);
  check("float_inf", INFINITY);
  check("float_inf_negative", -INFINITY);
  check("float_most", 4294967040.0);
  check("float_over", 4294967041.0);
  check("float_under", -4294967041.0);
  check("double_digits", 0.1, 10);
}

static void formats() {
  check_format("printf_size", "%zu %zd", static_cast<size_t>(4294967295u),
               static_cast<ptrdiff_t>(-5));
  check_format("printf_long_long", "%lld %llu", -9007199254740993LL, 18446744073709551615ULL);
  check_format("printf_char", "%hhu %hhd %hd", 511, -129, 65537);
  check_format("printf_float", "%.2f %.2f %5.1f %e %g", 3.14159, -0.005, 2.25, 12345.678, 1e-5);
  check_format("printf_width", "[%5d|%-5d|%05d|%+d]", 42, 42, 42, 42);
  check_format("printf_hex", "%x %X %#x %08" PRIx32, 48879u, 48879u, 48879u,
               static_cast<uint32_t>(0xbeef));
  check_format("printf_text", "%s|%.3s|%8s|%c|%%", "text", "truncated", "right", 'c');
  check_format("printf_mixed", "%c [%s:%zu] %d", 'I', "file.cpp", static_cast<size_t>(77), -1);
  char small[6];
  // Through a variable, or the compiler warns of the very cut that is wanted.
  const volatile size_t room = sizeof(small);
  check("printf_length", snprintf(small, room, "%s", "0123456789"));
  check("printf_cut", small);
}

static void strings() {
  String text("  Hello, World  ");
  text.trim();
  check("string_trim", text);
  check("string_length", text.length());
  check("string_index", text.indexOf('o'));
  check("string_index_from", text.indexOf('o', 5));
  check("string_index_text", text.indexOf("World"));
  check("string_index_none", text.indexOf("world"));
  check("string_last_index", text.lastIndexOf('o'));
  check("string_substring", text.substring(7));
  check("string_substring_range", text.substring(0, 5));
  check("string_substring_swapped", text.substring(5, 0));
  check("string_substring_beyond", text.substring(50));
  String upper = text;
  upper.toUpperCase();
  check("string_upper", upper);
  check("string_equals_ignore_case", upper.equalsIgnoreCase(text));
  check("string_equal", upper == text);
  check("string_starts", text.startsWith("Hello") && !text.startsWith("World"));
  check("string_ends", text.endsWith("World"));
  String replaced = text;
  replaced.replace("l", "LL");
  check("string_replace", replaced);
  replaced.remove(5);
  check("string_remove", replaced);
  replaced.remove(1, 2);
  check("string_remove_range", replaced);
  check("string_char_at", text.charAt(4));
  check("string_char_beyond", static_cast<int>(text.charAt(100)));
  text[0] = 'J';
  check("string_index_write", text);
  String sum = String("a") + 'b' + 3 + 4.5f + "c";
  sum += 6;
  sum += F("flash");
  check("string_concat", sum);
  sum = sum.substring(0, 3);
  sum += sum;
  check("string_self", sum);
  check("string_int", String(-42));
  check("string_hex", String(255, HEX));
  check("string_hex_negative", String(-1, HEX));
  check("string_bin", String(5, BIN));
  check("string_float", String(3.14159f));
  check("string_float_digits", String(3.14159, 4));
  check("string_float_padded", String(5.0f, 0));
  check("string_to_int", String("12abc").toInt());
  check("string_to_int_none", String("abc").toInt());
  check("string_to_float", String("-1.5e1x").toFloat());
  check("string_compare", String("abc") < String("abd"));
  check("string_moved", String(std::move(upper)));
  check("string_flash", F("flash"));
}

static void streams() {
  MemoryStream numbers("junk -12 34,5 6.25 x7\nrest of line\nword end");
  numbers.setTimeout(5);
  check("stream_int", numbers.parseInt());
  check("stream_int_next", numbers.parseInt());
  check("stream_int_after_comma", numbers.parseInt());
  check("stream_float", numbers.parseFloat());
  check("stream_int_none", numbers.parseInt(SKIP_WHITESPACE));
  check("stream_until", numbers.readStringUntil('\n'));
  char buffer[8] = {};
  check("stream_bytes_until", numbers.readBytesUntil(' ', buffer, sizeof(buffer)));
  check("stream_bytes", buffer);
  check("stream_find", numbers.find("word"));
  check("stream_rest", numbers.readString());
  check("stream_end", numbers.read());
  MemoryStream repeated("aaab");
  repeated.setTimeout(5);
  check("stream_find_overlap", repeated.find("aab"));
  MemoryStream silent("");
  silent.setTimeout(30);
  const unsigned long before = millis();
  const int nothing = silent.parseInt();
  const unsigned long waited = millis() - before;
  check("stream_timeout", nothing == 0 && waited >= 30 && waited < 40);
}

static bool delays_for(unsigned long wanted_ms) {
  const uint64_t before = hil_virtual_time_ns();
  delay(wanted_ms);
  const uint64_t taken_us = (hil_virtual_time_ns() - before) / 1000;
  // A native process may be put aside by its system at any moment; an emulated board may not.
  const uint64_t slack_us = hil_has_instruction_count() ? 50 : 1000000;
  return taken_us >= wanted_ms * 1000 && taken_us < wanted_ms * 1000 + slack_us;
}

static void time() {
  bool monotonic = true;
  unsigned long last = micros();
  for (int i = 0; i < 2000; ++i) {
    const unsigned long now = micros();
    monotonic = monotonic && now >= last;
    last = now;
  }
  check("time_monotonic", monotonic);
  check("time_delay_0", delays_for(0));
  check("time_delay_1", delays_for(1));
  check("time_delay_50", delays_for(50));
  check("time_delay_3000", delays_for(3000));
  const unsigned long before = micros();
  delayMicroseconds(200);
  check("time_delay_microseconds", micros() - before >= 200);
}

__attribute__((noinline)) static void fixed_work() {
  for (int i = 0; i < 1000; ++i) {
    __asm volatile("nop");
  }
}

static int64_t instructions_of_fixed_work() {
  const int64_t before = hil_instruction_count();
  fixed_work();
  return hil_instruction_count() - before - hil_instruction_overhead();
}

static void instructions() {
  const int64_t expected = instructions_of_fixed_work();
  bool same = true;
  for (unsigned i = 0; i < 40; ++i) {
    // Shifts the counter's ticks against the instructions, which must not show.
    delayMicroseconds(i);
    same = same && instructions_of_fixed_work() == expected;
  }
  check("instructions_repeat", same);
  const bool counted = hil_has_instruction_count() != 0;
  check("instructions_plausible", counted ? expected > 2000 && expected < 8000 : expected == 0);
  check("instructions_exclude_sleep", counted ? hil_instruction_count() < 10000000 : true);
}

static void memory() {
  const size_t size = 16 * 1024;
  uint8_t* block = static_cast<uint8_t*>(malloc(size));
  check("heap", block != nullptr);
  memset(block, 1, size);
  free(block);
  check("heap_high_water", hil_heap_high_water_bytes() < 0 ||
                               hil_heap_high_water_bytes() >= static_cast<int64_t>(size));
  check("heap_refuses", malloc(static_cast<size_t>(-1) / 2) == nullptr);
  volatile uint8_t stack[24 * 1024];
  for (size_t i = 0; i < sizeof(stack); ++i) {
    stack[i] = static_cast<uint8_t>(i);
  }
  check("stack", stack[sizeof(stack) - 1]);
  const uint8_t bytes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  uint32_t word32;
  memcpy(&word32, bytes + 1, sizeof(word32));
  check("unaligned", word32, HEX);
}

static void arithmetic() {
  check("map", map(5, 0, 10, 0, 100));
  check("map_reversed", map(2, 0, 10, 100, 0));
  check("constrain", constrain(15, 0, 10));
  check("min", min(3, 2));
  check("max", max(2.5, 2));
  check("abs", abs(-7));
  check("round", round(-2.5));
  check("sq", sq(7));
  check("bits", bitRead(0x10, 4) + bit(3) + lowByte(0x1234) + highByte(0x1234));
  randomSeed(7);
  const long drawn = random(1000);
  randomSeed(7);
  check("random_repeats", drawn == random(1000) && drawn >= 0 && drawn < 1000);
  check("random_range", random(5, 6));
  static const uint16_t table[] PROGMEM = {10, 20, 30};
  check("progmem", pgm_read_word(table + 1));
  volatile float third_of_ten = 10.0f / 3.0f;
  check("float_math", third_of_ten * 3.0f == 10.0f && sqrtf(2.25f) == 1.5f, DEC);
  check("double_math", exp(1.0), 8);
}

void setup() {
  Serial.begin(115200);
  start_up();
  integers();
  decimals();
  formats();
  strings();
  streams();
  time();
  instructions();
  memory();
  arithmetic();
  pinMode(LED_BUILTIN, OUTPUT);
  digitalWrite(LED_BUILTIN, HIGH);
  check("pin", digitalRead(LED_BUILTIN));
  check("serial", static_cast<bool>(Serial));
  // Must not reach Serial.
  printf("console\n");
  check("done", checks_done);
}

void loop() {
  static uint32_t bytes;
  static uint32_t sum;
  const int next = Serial.read();
  if (next < 0) {
    return;
  }
  if (bytes % 1000 == 500) {
    delay(20);
  }
  if (next != '\n') {
    ++bytes;
    sum = sum * 31 + static_cast<uint32_t>(next);
    return;
  }
  Serial.print("received=");
  Serial.print(bytes);
  Serial.print(':');
  Serial.println(sum);
  bytes = sum = 0;
}
