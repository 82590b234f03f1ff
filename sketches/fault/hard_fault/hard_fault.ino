// Works for a line, then reads from an address where nothing is, three calls deep: an autopsy has
// to name the function.

__attribute__((noinline)) static uint32_t read_sensor(uint32_t address) {
  return *reinterpret_cast<volatile uint32_t*>(address);
}

__attribute__((noinline)) static uint32_t average(uint32_t address) {
  uint32_t sum = 0;
  for (uint32_t at = 0; at < 4; ++at) {
    sum += read_sensor(address + 4 * at);
  }
  return sum / 4;
}

void setup() {
  Serial.begin(115200);
  Serial.println("sensor: started");
  Serial.flush();
}

void loop() {
  Serial.println(average(0xDEAD0000));
}
