#!/usr/bin/env bash
# Checks the GPU engine on a machine with a GPU, and times it: tests/gpu, then benchmarks/gpu.py. At most 8 minutes on
# one H100. Needs this repository, Python 3.11 or newer, NumPy, SciPy, scikit-learn, Numba, CuPy 14 and pytest, no network.
#
#   scripts/gpu_check.sh [--out FOLDER]     figures go to FOLDER/gpu.json (default benchmarks/results)
#   scripts/gpu_check.sh --cpu-shim         a rehearsal without a GPU: tiny sizes, kernels compiled by g++ (needs it)
#
# PYTHON names the interpreter (default python3).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
out=benchmarks/results
marker=gpu
mode=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --cpu-shim) marker="not gpu and not slow"; mode=(--cpu-shim); shift ;;
    *) echo "gpu_check: unknown option $1; see the head of scripts/gpu_check.sh" >&2; exit 2 ;;
  esac
done

missing=$("$python" - "${mode[@]}" <<'PY'
import importlib.util, sys
names = ["numpy", "scipy", "sklearn", "numba", "pytest"] + ([] if "--cpu-shim" in sys.argv else ["cupy"])
print(" ".join(name for name in names if importlib.util.find_spec(name) is None))
PY
) || { echo "gpu_check: $python does not run; name another interpreter with PYTHON=..." >&2; exit 2; }
[ -z "$missing" ] || { echo "gpu_check: $("$python" --version) at $python lacks: $missing" >&2; exit 2; }
if [ ${#mode[@]} -eq 0 ]; then
  "$python" -c 'import cupy, sys; sys.exit(0 if cupy.cuda.is_available() else 1)' ||
    { echo "gpu_check: CuPy finds no CUDA device (a rehearsal without one: --cpu-shim)" >&2; exit 2; }
fi

export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
started=$SECONDS
echo "== tests/gpu"
timeout 270 "$python" -m pytest -c tests/gpu/gpu_check.ini --rootdir=tests/gpu --confcutdir=tests/gpu -q -m "$marker" \
  --durations=5 tests/gpu
tests=$?
[ $tests -ne 124 ] || echo "gpu_check: the tests took longer than 270 s and were ended" >&2
echo "== benchmarks/gpu.py (tests: $((SECONDS - started)) s)"
timeout 200 "$python" -P benchmarks/gpu.py --out "$out" "${mode[@]}"
figures=$?
[ $figures -ne 124 ] || echo "gpu_check: the benchmark took longer than 200 s and was ended" >&2
echo "gpu_check: tests $([ $tests -eq 0 ] && echo passed || echo FAILED), benchmark $([ $figures -eq 0 ] && echo done || echo FAILED), $((SECONDS - started)) s"
[ $tests -eq 0 ] && [ $figures -eq 0 ]
