// Arguments of the decoder's functions, as lib/native/decoder.ts declares them. What depends on the
// model is checked by native/rollout/decoder_arguments.h.
#pragma once

#include <vector>

#include "native/addon/arguments.h"
#include "native/rollout/decoder.h"

namespace hindsearch {

DecoderOptions read_decoder_options(const Argument& argument);
TokenBytes read_token_bytes(const Argument& argument);
Sampling read_sampling(const Argument& argument);
SegmentOptions read_segment_options(const Argument& argument);
RandomKey read_random_key(const Argument& argument);
std::vector<RandomKey> read_random_keys(const Argument& argument);

}  // namespace hindsearch
