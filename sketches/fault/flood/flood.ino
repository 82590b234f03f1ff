// Prints as fast as it can: fills a queue, a log or a disk.

void setup() {
  Serial.begin(115200);
}

void loop() {
  Serial.println("0123456789012345678901234567890123456789012345678901234567890123456789");
}
