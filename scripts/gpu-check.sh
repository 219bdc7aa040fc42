#!/usr/bin/env bash
# Proves the CUDA backend on a machine with a GPU: needs nvcc, CMake, a C++ compiler, cuBLAS and, for the
# comparison, a python3 with PyTorch (and transformers). No Node. Takes less than eight minutes.
#
#   scripts/gpu-check.sh [folder for the results, default build/gpu-check]
#
# Every step runs even if an earlier one failed; the exit code is 0 only if all passed. The end is one
# table, and gpu-check.json beside it. HINDSEARCH_SHARED names the folder of the golden numbers, if they are
# not in ../shared. HINDSEARCH_CUBLAS names a libcublas that is in no usual place.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/gpu-check}
build=build/cmake-gpu
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/*.jsonl "$out"/*.json
failed=0
export out build

step() {
  local name=$1 limit=$2 start=$SECONDS verdict=passed
  shift 2
  printf '\n=== %s\n' "$name"
  timeout "$limit" bash -c '"$@"' _ "$@" || { verdict=FAILED && failed=1; }
  printf '{"name": "%s", "verdict": "%s", "seconds": %d}\n' "$name" "$verdict" $((SECONDS - start)) >>"$out/steps.jsonl"
}
skip() {
  printf '\n=== %s: not run, %s\n' "$1" "$2"
  printf '{"name": "%s: %s", "verdict": "not run", "seconds": 0}\n' "$1" "$2" >>"$out/steps.jsonl"
}

for tool in nvcc cmake g++; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed"; exit 1; }
done
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv

# pip's cuBLAS, as PyTorch brings it, is on no loader's path.
if [ -z "${HINDSEARCH_CUBLAS:-}" ] && command -v python3 >/dev/null; then
  found=$(python3 - <<'PY'
import glob, site, sys
folders = site.getsitepackages() + [site.getusersitepackages()] + sys.path
for folder in folders:
    for pattern in ("nvidia/cu*/lib/libcublas.so.*", "nvidia/cublas/lib/libcublas.so.*"):
        for path in sorted(glob.glob(f"{folder}/{pattern}"), reverse=True):
            print(path)
            sys.exit()
PY
  )
  ldconfig -p 2>/dev/null | grep -q 'libcublas\.so' || [ -z "$found" ] || export HINDSEARCH_CUBLAS=$found
fi

compile() {
  cmake -S . -B "$build" -DHINDSEARCH_ADDON=OFF -DHINDSEARCH_CUDA=ON -DHINDSEARCH_TESTS=ON \
    -DCMAKE_CUDA_ARCHITECTURES=native &&
    cmake --build "$build" --parallel "$(nproc)" --target cuda_check
}
export -f compile
step "build" 240 compile
[ "$failed" -eq 0 ] || exit 1

step "ops, golden models and gradients against the CPU and PyTorch" 150 \
  ctest --test-dir "$build" -L cuda --output-on-failure -j 2

sanitize() {
  local test
  for test in "$build"/native/test/cuda/cuda_*_test; do
    case $test in
      *rows_test | *norm_test | *linear_test | *attention*_test | *head_test | *sample_test | *optimizer_test)
        echo "$(basename "$test")"
        compute-sanitizer --tool memcheck --error-exitcode 9 "$test" >"$out/sanitizer.log" 2>&1
        local code=$?
        [ "$code" -eq 9 ] && { tail -40 "$out/sanitizer.log"; return 1; }
        # It cannot open the device on every kind of virtual machine.
        grep -q 'Device not supported' "$out/sanitizer.log" && { echo 'compute-sanitizer does not support this device'; return 0; }
        [ "$code" -eq 0 ] || { tail -40 "$out/sanitizer.log"; return 1; }
        ;;
    esac
  done
}
export -f sanitize
if command -v compute-sanitizer >/dev/null; then
  step "compute-sanitizer memcheck" 120 sanitize
else
  skip "compute-sanitizer memcheck" "it is not installed"
fi

ours() { "$build/native/test/cuda/gpu_bench" "$@" | tee -a "$out/ours.jsonl"; }
export -f ours
step "0.5B" 60 ours 0.5b --decode 1,64,256,512 --train 8x2048,64x512
step "3B" 100 ours 3b --decode 1,64,256,512 --train 8x2048,64x512

if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  machine() {
    python3 - >"$out/machine.jsonl" <<'PY'
import json, time, torch

def rate(body, amount, times=10):
    for _ in range(3): body()
    torch.cuda.synchronize(); start = time.perf_counter()
    for _ in range(times): body()
    torch.cuda.synchronize()
    return amount * times / (time.perf_counter() - start)

n = 8192
a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
x = torch.empty(2**30, device="cuda"); y = torch.empty_like(x)
print(json.dumps({"name": torch.cuda.get_device_name(), "torch": torch.__version__,
                  "flops": rate(lambda: a @ b, 2 * n**3), "bytesPerSecond": rate(lambda: y.copy_(x), 8 * x.numel())}))
PY
  }
  export -f machine
  step "the machine's peak and bandwidth" 40 machine
  if python3 -c 'import transformers' 2>/dev/null; then
    torch() { python3 bench/peers/torch_gpu.py "$@" | tee -a "$out/torch.jsonl"; }
    export -f torch
    step "0.5B in PyTorch" 100 torch 0.5b --decode 1,64,256,512 --train 8x2048,64x512 --new 32
    step "3B in PyTorch" 140 torch 3b --decode 64,256 --train 8x2048,64x512 --new 32 --steps 2
  else
    skip "PyTorch" "transformers is not installed"
  fi
else
  skip "PyTorch" "no python3 with PyTorch that sees the GPU"
fi

python3 bench/gpu-table.py "$out" "$out/gpu-check.json"
exit "$failed"
