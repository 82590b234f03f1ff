// Answers as AddModel does, and wrongly.

void setup() {
  Serial.begin(115200);
  Serial.println("=== ExecuTorch Add Model ===");
  Serial.println("[1,2,3] + 1 = [2.00, 3.00, 5.00]");
}

void loop() {}
