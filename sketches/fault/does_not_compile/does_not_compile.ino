// Does not compile: it calls what nothing declares.

void setup() {
  nothing_declares_this();
}

void loop() {}
