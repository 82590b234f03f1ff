// Waits for somebody at the port before it says anything, as many sketches do.  On a Uno Q only
// begin() asks whether anybody is there: a board that starts while nobody reads waits for ever.

void setup() {
  Serial.begin(115200);
  while (!Serial) {
  }
  Serial.println("somebody is there");
}

void loop() {}
