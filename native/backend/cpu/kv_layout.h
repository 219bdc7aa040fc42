// Inside a page: for every layer and head keys as [D][kPageTokens], so that scores vectorise over keys,
// then values as [kPageTokens][D].
#pragma once

#include "native/backend/backend.h"

namespace hindsearch::cpu {

inline KvPages kv_pages(std::int32_t layers, std::int32_t heads, std::int32_t head_dim) {
  return {nullptr, layers, heads, head_dim,
          std::int64_t{2} * layers * heads * head_dim * kPageTokens};
}

inline float* page_keys(const KvPages& pages, std::int32_t page, std::int32_t layer,
                        std::int32_t head) {
  return pages.data + page * pages.page_floats +
         (std::int64_t{layer} * pages.heads + head) * 2 * pages.head_dim * kPageTokens;
}
inline float* page_values(const KvPages& pages, std::int32_t page, std::int32_t layer,
                          std::int32_t head) {
  return page_keys(pages, page, layer, head) + std::int64_t{pages.head_dim} * kPageTokens;
}

}  // namespace hindsearch::cpu
