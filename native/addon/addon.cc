#include "native/addon/node_api.h"

namespace hindsearch {

class Addon : public Napi::Addon<Addon> {
 public:
  Addon(Napi::Env env, Napi::Object exports) {
    DefineAddon(exports, {InstanceValue("version", Napi::String::New(env, HINDSEARCH_VERSION))});
  }
};

}  // namespace hindsearch

using HindsearchAddon = hindsearch::Addon;
NODE_API_ADDON(HindsearchAddon)
