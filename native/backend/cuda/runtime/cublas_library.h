// Where cuBLAS is on this machine, and the few of its functions that are called.
#pragma once

#include <string>

#include "native/backend/cuda/device.h"

namespace hindsearch::cuda {

// The C interface of cuBLAS 12 and 13, as far as it is used (NVIDIA, "cuBLAS", chapters "Using the
// cuBLAS API" and "cuBLAS datatypes reference").
struct CublasApi {
  using Handle = void*;
  using Status = int;  // 0: success

  Status (*create)(Handle*);
  Status (*destroy)(Handle);
  Status (*version)(Handle, int*);
  Status (*set_stream)(Handle, cudaStream_t);
  Status (*set_workspace)(Handle, void*, std::size_t);
  Status (*gemm)(Handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                 int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c,
                 int c_type, int ldc, int compute_type, int algorithm);
  const char* (*status_name)(Status);
};

struct CublasLibrary {
  CublasApi api;
  CublasApi::Handle handle;
  std::string path;
  std::string version;  // "12.4.5"
};

// Opens the first library that gives a handle; it stays open. Throws Error(DEVICE_UNAVAILABLE).
CublasLibrary open_cublas();

// That library for reports, "cuBLAS 12.4.5 (/usr/.../libcublas.so.12)". From any thread. To ask it
// takes a handle, so it is asked once, and again only when HINDSEARCH_CUBLAS has changed or where
// none was found, as one may be installed meanwhile. Throws as open_cublas() does.
std::string describe_cublas();

}  // namespace hindsearch::cuda
