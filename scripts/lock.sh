#!/usr/bin/env bash
# Renews requirements/*.lock from pyproject.toml: every extra, every platform, hashes, no registry address.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
command -v "$uv" >/dev/null || { echo "scripts/lock.sh needs uv: python3 -m pip install uv" >&2; exit 1; }
compile() {
  "$uv" pip compile "$@" --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --custom-compile-command scripts/lock.sh --quiet
}
lock() { compile pyproject.toml --output-file "requirements/$1.lock" "${@:2}"; }
lock server --extra server
lock local --extra local
lock encoder --extra local --extra encoder
lock gpu-cuda12 --extra server --extra gpu-cuda12
lock gpu-cuda13 --extra server --extra gpu-cuda13
lock dev --extra local --extra otel --extra dev
# what builds the wheel of the project itself (Dockerfile)
"${PYTHON:-python3}" -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' |
  compile - --output-file requirements/build.lock
