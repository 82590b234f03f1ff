#pragma once

#include <ExecuTorch.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace runner {

// How an operation ended: `stage` is null when well, otherwise the runtime's own name for where it
// failed, with the runtime's error code, or 0 where the runner itself refused.
struct Outcome {
  const char* stage = nullptr;
  uint32_t code = 0;

  bool ok() const { return stage == nullptr; }
};

struct TensorView {
  const char* dtype = "";
  size_t rank = 0;
  const int32_t* sizes = nullptr;
  const uint8_t* order = nullptr;
  size_t bytes = 0;
  bool planned = false;
};

struct Counts {
  uint64_t least = 0;
  uint64_t most = 0;
  uint64_t total = 0;
};

// Runs one program in one block of memory:
//
//   | arena, N bytes | guard | ... | inputs, one after another, 16-byte aligned |
//
// The arena is what a sketch gives to ETModel as its pool, used in the same way and order, so that
// the same N works and fails here. Inputs live outside it and are set again before every run,
// because the planner lets a model overwrite its own input. The guard shows a kernel that wrote
// past the arena's end.
class ModelHost {
 public:
  static constexpr size_t kMaxInputs = 8;
  static constexpr size_t kMaxRank = 8;

  ModelHost(uint8_t* block, size_t block_bytes);

  // Reads the program and lays out the inputs; what else is asked of the model calls it first.
  Outcome open();

  size_t input_count() const { return input_count_; }
  size_t output_count() const { return output_count_; }
  size_t planned_bytes() const { return planned_bytes_; }

  // Largest arena that load() can be asked for.
  size_t arena_limit() const;

  Outcome input_view(size_t index, TensorView& view);
  Outcome output_view(size_t index, TensorView& view);

  // Builds everything anew in the first `arena_bytes` of the block, zeroed; forgets the inputs.
  Outcome load(size_t arena_bytes);

  bool loaded() const { return method_.has_value(); }
  size_t arena_bytes() const { return arena_bytes_; }

  // The allocator's high-water mark: it never gives back, so what is used now is the most.
  size_t used_bytes() const { return pool_ ? pool_->used_size() : 0; }

  Outcome put(size_t index, size_t offset, const uint8_t* data, size_t length);
  Outcome fill(size_t index, uint32_t seed);

  // Takes the bytes of an input as complete and returns their CRC-32.
  Outcome seal(size_t index, uint32_t& crc, size_t& bytes);

  Outcome run(uint32_t times, Counts& counts);

  // Bytes of an output of the last run.
  Outcome output(size_t index, const uint8_t*& data, size_t& bytes);

 private:
  using Bytes = executorch::runtime::Span<uint8_t>;

  struct Input {
    bool tensor = false;
    bool sealed = false;
    uint32_t crc = 0;
    uint8_t* data = nullptr;
    size_t bytes = 0;
    size_t elements = 0;
    executorch::aten::ScalarType type = executorch::aten::ScalarType::Undefined;
    size_t rank = 0;
    int32_t sizes[kMaxRank] = {};
    uint8_t order[kMaxRank] = {};
  };

  Outcome find(size_t index, Input*& input);
  Outcome build();
  Outcome set_inputs();
  void unload();
  void lay_guard();
  bool guard_intact() const;

  uint8_t* const block_;
  const size_t block_bytes_;
  bool opened_ = false;
  bool ran_ = false;
  size_t input_count_ = 0;
  size_t output_count_ = 0;
  size_t planned_bytes_ = 0;
  size_t inputs_start_ = 0;
  size_t arena_bytes_ = 0;
  const char* method_name_ = nullptr;
  Input inputs_[kMaxInputs];

  executorch::extension::BufferDataLoader loader_;
  std::optional<executorch::runtime::Program> program_;
  std::optional<executorch::runtime::MemoryAllocator> pool_;
  std::optional<executorch::runtime::HierarchicalAllocator> planned_;
  std::optional<executorch::runtime::MemoryManager> manager_;
  std::optional<executorch::runtime::Method> method_;
};

}  // namespace runner
