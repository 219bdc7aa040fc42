#pragma once

// The only file that includes <napi.h>, so that every translation unit sees the same switches.
#define NODE_ADDON_API_DISABLE_DEPRECATED
#define NODE_ADDON_API_REQUIRE_BASIC_FINALIZERS
// Without it, a callback that runs while a worker thread is being terminated aborts the process.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#include <napi.h>
