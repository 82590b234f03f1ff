#include "model_host.h"

#include <cstring>
#include <utility>

#include "checksum.h"
#include "counter.h"
#include "model_data.h"
#include "seeded.h"

namespace runner {

namespace rt = executorch::runtime;
using executorch::aten::ScalarType;

static constexpr size_t kAlignment = 16;
static constexpr size_t kGuardBytes = 64;
static constexpr uint8_t kGuardByte = 0xA5;

static Outcome failed(const char* stage, rt::Error error) {
  return {stage, static_cast<uint32_t>(error)};
}

static Outcome refused(const char* why) { return {why, 0}; }

static size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

static const char* dtype_name(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return "uint8";
    case ScalarType::Char: return "int8";
    case ScalarType::Short: return "int16";
    case ScalarType::Int: return "int32";
    case ScalarType::Long: return "int64";
    case ScalarType::Half: return "float16";
    case ScalarType::Float: return "float32";
    case ScalarType::Double: return "float64";
    case ScalarType::Bool: return "bool";
    case ScalarType::BFloat16: return "bfloat16";
    default: return "unknown";
  }
}

static void view_of(const rt::TensorInfo& info, TensorView& view) {
  view.dtype = dtype_name(info.scalar_type());
  view.rank = info.sizes().size();
  view.sizes = info.sizes().data();
  view.order = info.dim_order().data();
  view.bytes = info.nbytes();
  view.planned = info.is_memory_planned();
}

ModelHost::ModelHost(uint8_t* block, size_t block_bytes)
    : block_(block), block_bytes_(block_bytes), loader_(model_data(), model_bytes()) {}

size_t ModelHost::arena_limit() const {
  return inputs_start_ > kGuardBytes ? inputs_start_ - kGuardBytes : 0;
}

Outcome ModelHost::open() {
  if (opened_) {
    return {};
  }
  auto program = rt::Program::load(&loader_);
  if (!program.ok()) {
    return failed("Program::load", program.error());
  }
  program_.emplace(std::move(program.get()));
  auto name = program_->get_method_name(0);
  if (!name.ok()) {
    return failed("get_method_name", name.error());
  }
  method_name_ = *name;
  auto meta = program_->method_meta(method_name_);
  if (!meta.ok()) {
    return failed("method_meta", meta.error());
  }
  input_count_ = meta->num_inputs();
  output_count_ = meta->num_outputs();
  if (input_count_ > kMaxInputs) {
    return refused("more than 8 inputs");
  }
  planned_bytes_ = 0;
  for (size_t i = 0; i < meta->num_memory_planned_buffers(); i++) {
    auto size = meta->memory_planned_buffer_size(i);
    if (!size.ok()) {
      return failed("memory_planned_buffer_size", size.error());
    }
    planned_bytes_ += static_cast<size_t>(size.get());
  }
  size_t used = 0;
  for (size_t i = 0; i < input_count_; i++) {
    Input& input = inputs_[i];
    input = Input();
    auto tag = meta->input_tag(i);
    if (!tag.ok() || tag.get() != rt::Tag::Tensor) {
      continue;
    }
    auto info = meta->input_tensor_meta(i);
    if (!info.ok()) {
      return failed("input_tensor_meta", info.error());
    }
    if (info->sizes().size() > kMaxRank) {
      return refused("an input has more than 8 dimensions");
    }
    input.tensor = true;
    input.type = info->scalar_type();
    input.bytes = info->nbytes();
    input.rank = info->sizes().size();
    input.elements = 1;
    for (size_t axis = 0; axis < input.rank; axis++) {
      input.sizes[axis] = info->sizes()[axis];
      input.order[axis] = info->dim_order()[axis];
      input.elements *= static_cast<size_t>(input.sizes[axis]);
    }
    if (input.bytes > block_bytes_ || used > block_bytes_ - aligned(input.bytes)) {
      return refused("the block is smaller than the inputs");
    }
    input.data = block_ + used;  // moved to the block's end below
    used += aligned(input.bytes);
  }
  inputs_start_ = (block_bytes_ - used) & ~(kAlignment - 1);
  for (size_t i = 0; i < input_count_; i++) {
    if (inputs_[i].tensor) {
      inputs_[i].data += inputs_start_;
    }
  }
  opened_ = true;
  return {};
}

Outcome ModelHost::input_view(size_t index, TensorView& view) {
  auto meta = program_->method_meta(method_name_);
  auto info = meta->input_tensor_meta(index);
  if (!info.ok()) {
    return failed("input_tensor_meta", info.error());
  }
  view_of(info.get(), view);
  return {};
}

Outcome ModelHost::output_view(size_t index, TensorView& view) {
  auto meta = program_->method_meta(method_name_);
  auto info = meta->output_tensor_meta(index);
  if (!info.ok()) {
    return failed("output_tensor_meta", info.error());
  }
  view_of(info.get(), view);
  return {};
}

Outcome ModelHost::load(size_t arena_bytes) {
  unload();
  opened_ = false;
  Outcome outcome = open();
  if (!outcome.ok()) {
    return outcome;
  }
  if (arena_bytes > arena_limit()) {
    return refused("the arena is larger than the block allows");
  }
  arena_bytes_ = arena_bytes;
  memset(block_, 0, arena_bytes);
  lay_guard();
  outcome = build();
  if (outcome.ok() && !guard_intact()) {
    outcome = refused("loading wrote past the arena");
  }
  if (!outcome.ok()) {
    // Its memory is half built; what it used so far stays readable for the report.
    method_.reset();
  }
  return outcome;
}

Outcome ModelHost::build() {
  auto meta = program_->method_meta(method_name_);
  if (!meta.ok()) {
    return failed("method_meta", meta.error());
  }
  pool_.emplace(static_cast<uint32_t>(arena_bytes_), block_);
  const size_t count = meta->num_memory_planned_buffers();
  auto* table = static_cast<Bytes*>(pool_->allocate(count * sizeof(Bytes)));
  if (table == nullptr) {
    return failed("allocating the planned-buffer table", rt::Error::MemoryAllocationFailed);
  }
  for (size_t i = 0; i < count; i++) {
    auto size = meta->memory_planned_buffer_size(i);
    if (!size.ok()) {
      return failed("memory_planned_buffer_size", size.error());
    }
    const size_t bytes = static_cast<size_t>(size.get());
    auto* buffer = static_cast<uint8_t*>(pool_->allocate(bytes));
    if (buffer == nullptr) {
      return failed("allocating a planned buffer", rt::Error::MemoryAllocationFailed);
    }
    table[i] = Bytes(buffer, bytes);
  }
  planned_.emplace(rt::Span<Bytes>(table, count));
  // No allocator for temporaries, as in ETModel: with one, the same model needs less.
  manager_.emplace(&*pool_, &*planned_);
  auto method = program_->load_method(method_name_, &*manager_);
  if (!method.ok()) {
    return failed("load_method", method.error());
  }
  method_.emplace(std::move(method.get()));
  return {};
}

void ModelHost::unload() {
  // In the order of their use of one another.
  method_.reset();
  manager_.reset();
  planned_.reset();
  pool_.reset();
  program_.reset();
  ran_ = false;
  arena_bytes_ = 0;
}

Outcome ModelHost::find(size_t index, Input*& input) {
  if (!loaded()) {
    return refused("no model is loaded");
  }
  if (index >= input_count_ || !inputs_[index].tensor) {
    return refused("there is no such tensor input");
  }
  input = &inputs_[index];
  return {};
}

Outcome ModelHost::put(size_t index, size_t offset, const uint8_t* data, size_t length) {
  Input* input = nullptr;
  Outcome outcome = find(index, input);
  if (!outcome.ok()) {
    return outcome;
  }
  if (offset > input->bytes || length > input->bytes - offset) {
    return refused("the bytes lie outside the input");
  }
  input->sealed = false;
  memcpy(input->data + offset, data, length);
  return {};
}

Outcome ModelHost::fill(size_t index, uint32_t seed) {
  Input* input = nullptr;
  Outcome outcome = find(index, input);
  if (!outcome.ok()) {
    return outcome;
  }
  input->sealed = false;
  if (!fill_seeded(input->data, input->elements, input->type, seed)) {
    return refused("the generator has no numbers of this type");
  }
  return {};
}

Outcome ModelHost::seal(size_t index, uint32_t& crc, size_t& bytes) {
  Input* input = nullptr;
  Outcome outcome = find(index, input);
  if (!outcome.ok()) {
    return outcome;
  }
  input->crc = crc = crc32(input->data, input->bytes);
  bytes = input->bytes;
  input->sealed = true;
  return {};
}

Outcome ModelHost::set_inputs() {
  for (size_t i = 0; i < input_count_; i++) {
    Input& input = inputs_[i];
    if (!input.tensor) {
      continue;
    }
    if (!input.sealed) {
      return refused("an input is not set");
    }
    // An input that is not planned is used in place: a kernel may have written to it.
    if (crc32(input.data, input.bytes) != input.crc) {
      return refused("an input was overwritten by a run");
    }
    executorch::aten::TensorImpl impl(
        input.type, static_cast<ssize_t>(input.rank), input.sizes, input.data, input.order);
    const rt::Error status = method_->set_input(rt::EValue(executorch::aten::Tensor(&impl)), i);
    if (status != rt::Error::Ok) {
      return failed("set_input", status);
    }
  }
  return {};
}

Outcome ModelHost::run(uint32_t times, Counts& counts) {
  if (!loaded()) {
    return refused("no model is loaded");
  }
  ran_ = false;
  counts = Counts();
  const uint64_t overhead = count_overhead();
  for (uint32_t i = 0; i < times; i++) {
    const Outcome outcome = set_inputs();
    if (!outcome.ok()) {
      return outcome;
    }
    const uint64_t before = count_now();
    const rt::Error status = method_->execute();
    const uint64_t after = count_now();
    if (status != rt::Error::Ok) {
      // The method stands in the middle of its instructions and can't be run again.
      method_.reset();
      return failed("execute", status);
    }
    if (!guard_intact()) {
      return refused("a kernel wrote past the arena");
    }
    const uint64_t passed = after - before;
    const uint64_t taken = passed > overhead ? passed - overhead : 0;
    counts.total += taken;
    counts.most = taken > counts.most ? taken : counts.most;
    counts.least = (i == 0 || taken < counts.least) ? taken : counts.least;
  }
  ran_ = true;
  return {};
}

Outcome ModelHost::output(size_t index, const uint8_t*& data, size_t& bytes) {
  if (!ran_) {
    return refused("no run has ended well");
  }
  if (index >= output_count_) {
    return refused("there is no such output");
  }
  const rt::EValue& value = method_->get_output(index);
  if (!value.isTensor()) {
    return refused("the output is not a tensor");
  }
  const auto& tensor = value.toTensor();
  data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  bytes = tensor.nbytes();
  return {};
}

void ModelHost::lay_guard() { memset(block_ + arena_bytes_, kGuardByte, kGuardBytes); }

bool ModelHost::guard_intact() const {
  for (size_t i = 0; i < kGuardBytes; i++) {
    if (block_[arena_bytes_ + i] != kGuardByte) {
      return false;
    }
  }
  return true;
}

}  // namespace runner
