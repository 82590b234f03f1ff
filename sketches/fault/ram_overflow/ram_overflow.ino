// One variable of 64 MiB: more than any emulated board's RAM.

static uint8_t big[64 * 1024 * 1024];

void setup() {
  Serial.begin(115200);
}

void loop() {
  big[millis() % sizeof(big)] += 1;
  Serial.println(big[millis() % sizeof(big)]);
}
