#!/usr/bin/env bash
# Renews requirements/*.lock from pyproject.toml: every extra, every platform, hashes, no registry address.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
command -v "$uv" >/dev/null || { echo "scripts/lock.sh needs uv: python3 -m pip install uv" >&2; exit 1; }
lock() {
  local out=$1
  shift
  "$uv" pip compile pyproject.toml "$@" --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command scripts/lock.sh --quiet --output-file "requirements/$out.lock"
}
lock base
lock local --extra local
lock gpu-cuda12 --extra gpu-cuda12
lock gpu-cuda13 --extra gpu-cuda13
lock dev --extra local --extra dev
