// Runs and never says a word.

void setup() {}

void loop() {
  delay(10);
}
