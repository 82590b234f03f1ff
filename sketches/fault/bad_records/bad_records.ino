// A runner that greets well and then sends damaged records: `model` is answered with one that
// stops in the middle, `library` with a wrong checksum, `program` twice.  Its nonce is "fault".

static String line;

static uint16_t crc16(const String& text) {
  uint16_t crc = 0xFFFF;
  for (unsigned int i = 0; i < text.length(); ++i) {
    crc ^= static_cast<uint16_t>(static_cast<uint8_t>(text[i]) << 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<uint16_t>(crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
  }
  return crc;
}

static String body(const String& sequence, const String& verb) {
  return "{\"n\":\"fault\",\"s\":" + sequence + ",\"v\":\"" + verb +
      "\",\"ok\":1,\"proto\":1,\"unit\":\"none\",\"pointer\":4,\"block\":1024}";
}

static void send(const String& text, uint16_t crc) {
  static const char digits[] = "0123456789ABCDEF";
  Serial.print("@hil ");
  Serial.print(text);
  Serial.print('*');
  for (int shift = 12; shift >= 0; shift -= 4) {
    Serial.print(digits[(crc >> shift) & 15]);
  }
  Serial.println();
}

static void answer(const String& command) {
  const int space = command.indexOf(' ', 5);
  const int star = command.indexOf('*');
  if (!command.startsWith("@hil ") || space < 0 || star < 0) {
    return;
  }
  const String sequence = command.substring(5, space);
  const String rest = command.substring(space + 1, star);
  const int end = rest.indexOf(' ');
  const String verb = end < 0 ? rest : rest.substring(0, end);
  const String text = body(sequence, verb);
  if (verb == "model") {
    Serial.println("@hil " + text.substring(0, text.length() / 2));
    return;
  }
  send(text, verb == "library" ? crc16(text) ^ 1 : crc16(text));
  if (verb == "program") {
    send(text, crc16(text));
  }
}

void setup() {
  Serial.begin(115200);
}

void loop() {
  // On a Uno Q only available() fetches what was typed; read() takes what is there.
  if (Serial.available() == 0) {
    return;
  }
  const int next = Serial.read();
  if (next == '\n') {
    answer(line);
    line = "";
  } else {
    line += static_cast<char>(next);
  }
}
