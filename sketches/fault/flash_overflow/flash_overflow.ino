// One constant of 8 MiB: more than any virtual board's flash.

static const uint8_t big[8 * 1024 * 1024] = {1};

void setup() {
  Serial.begin(115200);
}

void loop() {
  // An index that the compiler cannot know, or it would keep one byte only.
  Serial.println(big[millis() % sizeof(big)]);
}
