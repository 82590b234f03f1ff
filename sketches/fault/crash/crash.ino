// Says that it is about to, and loads from an address where nothing is.

void setup() {
  Serial.begin(115200);
  Serial.println("about to crash");
  Serial.flush();
}

void loop() {
  Serial.println(*reinterpret_cast<volatile uint32_t*>(0xDEAD0000));
}
