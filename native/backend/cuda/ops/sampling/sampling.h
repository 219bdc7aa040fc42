// What goes up to the device for a draw, and what comes down.
#pragma once

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

struct DrawRequest {
  double uniform;
  std::int32_t row;
  Sampling sampling;
};

struct Drawn {
  Token token;
  float log_prob;
};

// Rows of logits [*, vocabulary]. `whole` as in load_segment.
struct LogitRows {
  const float* data;
  std::int32_t vocabulary;
  bool whole;
};

// filters.cu: draws `count` rows with a filter, a block each, into drawn[row]. Recordable.
void draw_filtered(cudaStream_t stream, const LogitRows& rows, const DrawRequest* requests,
                   std::int64_t count, Drawn* drawn);

}  // namespace hindsearch::cuda
