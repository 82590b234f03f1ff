// Resets itself before it can be asked anything, as a board with a dying supply does.  Each time it
// says the runner's record of a boot; its checksum is that of the text, for the nonce "loop".

void setup() {
  Serial.begin(115200);
  Serial.println("@hil {\"n\":\"loop\",\"s\":0,\"v\":\"boot\"}*D7EA");
  Serial.flush();
  delay(50);
#if defined(__arm__)
  // AIRCR: the key and SYSRESETREQ.
  *reinterpret_cast<volatile uint32_t*>(0xE000ED0C) = 0x05FA0004;
#endif
}

void loop() {}
