// Sends back every line it receives: proves the way to the board and back with no library.
//
// Prints "echo ready" once, then "echo: <line>" for each line, whatever its ending.  A line may be
// of any length: nothing is held but the current one.

static String line;

void setup() {
  Serial.begin(115200);
  Serial.println("echo ready");
}

void loop() {
  // On a Uno Q only available() fetches what was typed; read() takes what is there.
  if (Serial.available() == 0) {
    return;
  }
  const int next = Serial.read();
  if (next == '\r') {
    return;
  }
  if (next != '\n') {
    line += static_cast<char>(next);
    return;
  }
  Serial.print("echo: ");
  Serial.println(line);
  line = "";
}
