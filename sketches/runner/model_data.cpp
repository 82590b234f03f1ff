#include "model_data.h"

// A file of its own: a change elsewhere in the sketch does not compile the array again.
#include "model.h"

namespace runner {

const uint8_t* model_data() { return model_pte; }
size_t model_bytes() { return sizeof(model_pte); }

}  // namespace runner
