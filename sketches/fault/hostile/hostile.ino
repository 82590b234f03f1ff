// What a terminal must never see raw, then a word to wait for: colours, a title, bells, bad UTF-8.

void setup() {
  Serial.begin(115200);
  Serial.print("\x1b[31mred \x1b]0;title\x07 \x07\x07 \x9b\x31m");
  Serial.write(0xff);
  Serial.write(0xfe);
  Serial.println(" end");
}

void loop() {}
