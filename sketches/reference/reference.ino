// Links the whole runtime and every registered kernel, and is never run: the bench builds it once
// from the library's sources and once from the precompiled archive, and compares the two images.

#include <ExecuTorch.h>

// The namespace keeps arduino-cli's prototype generator from reading "static" into setup().
namespace {
alignas(16) uint8_t pool[1024];
alignas(16) const uint8_t program_bytes[64] = {0};
}  // namespace

void setup() {
  Serial.begin(115200);
  executorch::runtime::runtime_init();
  auto loader =
      executorch::extension::BufferDataLoader(program_bytes, sizeof(program_bytes));
  auto program = executorch::runtime::Program::load(&loader);
  if (!program.ok()) {
    Serial.println(static_cast<int>(program.error()), HEX);
    return;
  }
  executorch::runtime::MemoryAllocator allocator(sizeof(pool), pool);
  executorch::runtime::MemoryManager manager(&allocator);
  auto method = program->load_method("forward", &manager);
  if (method.ok()) {
    Serial.println(static_cast<int>(method->execute()), HEX);
  }
}

void loop() { delay(1000); }
