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
rm -f "$out"/{steps,ours,torch,machine}.jsonl "$out/gpu-check.json"
failed=0
export out build

step() {
  local name=$1 limit=$2 start=$SECONDS verdict=passed
  shift 2
  printf '\n=== %s\n' "$name"
  # A shell of its own forgets `set`: without pipefail what fails before a `| tee` would pass.
  timeout "$limit" bash -o pipefail -c '"$@"' _ "$@" || { verdict=FAILED && failed=1; }
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

# The tests pass over golden numbers that are not there.
export HINDSEARCH_SHARED=${HINDSEARCH_SHARED:-$PWD/../shared}
if [ -d "$HINDSEARCH_SHARED" ]; then
  HINDSEARCH_SHARED=$(cd "$HINDSEARCH_SHARED" && pwd)
else
  skip "golden models and gradients against PyTorch" "there is no folder $HINDSEARCH_SHARED"
fi
step "ops, models and gradients against the CPU and golden numbers" 150 \
  ctest --test-dir "$build" -L cuda --output-on-failure -j 2

sanitize() {
  local test
  for test in "$build"/native/test/cuda/cuda_*_test; do
    case $test in
      *rows_test | *norm_test | *linear_test | *attention*_test | *head_test | *sample_test | *optimizer_test)
        echo "$(basename "$test")"
        # Accesses alone: cuBLAS tries calls that fail, and what fails of ours the test says.
        compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$test" >"$out/sanitizer.log" 2>&1
        local code=$?
        # It cannot open the device on every kind of virtual machine, and then everything else fails.
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

# A process each for decoding and training: peak memory is that of the process.
ours() {
  "$build/native/test/cuda/gpu_bench" "$1" --decode 1,64,256,512 | tee -a "$out/ours.jsonl" &&
    "$build/native/test/cuda/gpu_bench" "$1" --train 8x2048,64x512 | tee -a "$out/ours.jsonl"
}
export -f ours
step "0.5B" 60 ours 0.5b
step "3B" 100 ours 3b

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
    # `generate` compiles for the first batch, for the second with its size left open, and for one of 1.
    step "0.5B in PyTorch" 140 torch 0.5b --train 8x2048,64x512 --decode 256,64,512,1 --new 64 --begin-within 60
    step "3B in PyTorch" 140 torch 3b --train 8x2048,64x512 --decode 256,64 --new 64 --steps 2 --begin-within 60
  else
    skip "PyTorch" "transformers is not installed"
  fi
else
  skip "PyTorch" "no python3 with PyTorch that sees the GPU"
fi

python3 bench/gpu-table.py "$out" "$out/gpu-check.json"
exit "$failed"
