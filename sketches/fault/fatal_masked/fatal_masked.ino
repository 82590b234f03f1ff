// Ends as a fatal assertion of the runtime does, with no library: interrupts off, parked for ever
// in a function of that name, not a word said.

extern "C" __attribute__((noreturn, noinline)) void et_pal_abort() {
  noInterrupts();
  for (;;) {
  }
}

__attribute__((noinline)) static void check(bool holds) {
  if (!holds) {
    et_pal_abort();
  }
}

void setup() {
  Serial.begin(115200);
  Serial.println("model: loading");
  Serial.flush();
  check(millis() > 4000000000UL);
  Serial.println("model: loaded");
}

void loop() {}
