// One model in one pool of memory: the class that the Arduino library's sketches use, written for
// the host lane.  Names, limits and the words of error() follow that library, so that a sketch and
// whoever reads its output need not know which of the two is below.

#pragma once

#include <ExecuTorch.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

class ETModel {
 public:
  // Both buffers are used in place and must outlive the model.
  ETModel(const uint8_t* program_bytes, size_t program_size, uint8_t* pool, size_t pool_size)
      : source_(program_bytes, program_size),
        pool_(static_cast<uint32_t>(pool_size), pool) {}

  ETModel(const ETModel&) = delete;
  ETModel& operator=(const ETModel&) = delete;

  // Loads the program and its first method; false leaves the reason in error().
  bool begin() {
    namespace rt = executorch::runtime;
    rt::Result<rt::Program> loaded = rt::Program::load(&source_);
    if (!loaded.ok()) return refuse("Program::load", loaded.error());
    program_.emplace(std::move(*loaded));

    rt::Result<const char*> name = program_->get_method_name(0);
    if (!name.ok()) return refuse("get_method_name", name.error());
    name_ = *name;

    if (!plan()) return false;

    memory_.emplace(&pool_, &*buffers_);
    rt::Result<rt::Method> method = program_->load_method(name_, &*memory_);
    if (!method.ok()) return refuse("load_method", method.error());
    method_.emplace(std::move(*method));
    return true;
  }

  // Uses `values` in place, so they must live until run() has returned.
  bool setInput(size_t index, const float* values, size_t count) {
    if (!method_) return refuse("setInput before begin()", 0);
    if (index >= kInputs) return refuse("input index above the built-in limit", kInputs);
    auto meta = program_->method_meta(name_);
    if (!meta.ok()) return refuse("method_meta", meta.error());
    auto tensor = meta->input_tensor_meta(index);
    if (!tensor.ok()) return refuse("input_tensor_meta", tensor.error());

    Input& input = inputs_[index];
    const size_t rank = tensor->sizes().size();
    if (rank > kRank) return refuse("input rank above the built-in limit", kRank);
    size_t wanted = 1;
    for (size_t axis = 0; axis < rank; ++axis) {
      input.sizes[axis] = tensor->sizes()[axis];
      input.order[axis] = tensor->dim_order()[axis];
      wanted *= static_cast<size_t>(input.sizes[axis]);
    }
    if (wanted != count) return refuse("input element count does not match the model", wanted);

    input.impl.emplace(tensor->scalar_type(), static_cast<ssize_t>(rank), input.sizes,
                       const_cast<float*>(values), input.order);
    const auto status = method_->set_input(
        executorch::runtime::EValue(executorch::aten::Tensor(&*input.impl)), index);
    return status == executorch::runtime::Error::Ok || refuse("set_input", status);
  }

  bool run() {
    if (!method_) return refuse("run before begin()", 0);
    const auto status = method_->execute();
    return status == executorch::runtime::Error::Ok || refuse("execute", status);
  }

  // The output's elements until the next run(), or nullptr.
  const float* output(size_t index = 0) {
    const executorch::aten::Tensor* tensor = result(index);
    return tensor == nullptr ? nullptr : tensor->const_data_ptr<float>();
  }

  size_t outputCount(size_t index = 0) {
    const executorch::aten::Tensor* tensor = result(index);
    return tensor == nullptr ? 0 : static_cast<size_t>(tensor->numel());
  }

  // Position of the greatest element, the first of equals; -1 without an output.
  int argmax(size_t index = 0) {
    const float* values = output(index);
    const size_t count = values == nullptr ? 0 : outputCount(index);
    int greatest = count == 0 ? -1 : 0;
    for (size_t at = 1; at < count; ++at) {
      if (values[at] > values[greatest]) greatest = static_cast<int>(at);
    }
    return greatest;
  }

  // The last reason for a false, never nullptr.
  const char* error() const { return reason_[0] == '\0' ? "no error" : reason_; }

  executorch::runtime::Program* program() { return program_ ? &*program_ : nullptr; }
  executorch::runtime::Method* method() { return method_ ? &*method_ : nullptr; }

 private:
  static constexpr size_t kInputs = 4;
  static constexpr size_t kOutputs = 4;
  static constexpr size_t kRank = 8;
  using Bytes = executorch::runtime::Span<uint8_t>;

  struct Input {
    int32_t sizes[kRank];
    uint8_t order[kRank];
    std::optional<executorch::aten::TensorImpl> impl;
  };

  // Takes the planned buffers out of the pool, in the order the program lists them.
  bool plan() {
    auto meta = program_->method_meta(name_);
    if (!meta.ok()) return refuse("method_meta", meta.error());
    const size_t count = meta->num_memory_planned_buffers();
    auto* table = static_cast<Bytes*>(pool_.allocate(count * sizeof(Bytes)));
    if (table == nullptr) return refuse("allocating the planned-buffer table", pool_.size());
    for (size_t at = 0; at < count; ++at) {
      auto size = meta->memory_planned_buffer_size(at);
      if (!size.ok()) return refuse("memory_planned_buffer_size", size.error());
      const size_t length = static_cast<size_t>(*size);
      auto* start = static_cast<uint8_t*>(pool_.allocate(length));
      if (start == nullptr) return refuse("allocating a planned buffer", pool_.size());
      table[at] = Bytes(start, length);
    }
    buffers_.emplace(executorch::runtime::Span<Bytes>(table, count));
    return true;
  }

  const executorch::aten::Tensor* result(size_t index) {
    if (!method_) {
      refuse("output before begin()", 0);
      return nullptr;
    }
    if (index >= kOutputs) {
      refuse("output index above the built-in limit", kOutputs);
      return nullptr;
    }
    const auto status = method_->get_outputs(values_, index + 1);
    if (status != executorch::runtime::Error::Ok || !values_[index].isTensor()) {
      refuse("get_outputs", status);
      return nullptr;
    }
    result_.emplace(values_[index].toTensor());
    return &*result_;
  }

  template <typename Detail>
  bool refuse(const char* stage, Detail detail) {
    std::snprintf(reason_, sizeof(reason_), "%s failed (0x%x)", stage,
                  static_cast<unsigned>(detail));
    return false;
  }

  executorch::extension::BufferDataLoader source_;
  executorch::runtime::MemoryAllocator pool_;
  std::optional<executorch::runtime::Program> program_;
  std::optional<executorch::runtime::HierarchicalAllocator> buffers_;
  std::optional<executorch::runtime::MemoryManager> memory_;
  std::optional<executorch::runtime::Method> method_;
  const char* name_ = nullptr;
  Input inputs_[kInputs];
  executorch::runtime::EValue values_[kOutputs];
  std::optional<executorch::aten::Tensor> result_;
  char reason_[96] = {};
};
