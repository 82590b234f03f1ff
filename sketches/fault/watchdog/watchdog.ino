// Says two lines and is reset before it can say a third, again and again: what a watchdog that
// nobody feeds looks like from outside.

void setup() {
  Serial.begin(115200);
  Serial.println("watchdog: started");
  Serial.println("watchdog: works");
  Serial.flush();
  delay(50);
#if defined(__arm__)
  // AIRCR: the key and SYSRESETREQ.
  *reinterpret_cast<volatile uint32_t*>(0xE000ED0C) = 0x05FA0004;
#endif
}

void loop() {}
