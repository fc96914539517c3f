#!/usr/bin/env bash
# Makes .venv for the Makefile: `install.sh local` installs what runs the product, `install.sh dev` what tests it, too.
#
# A stamp, .venv/local or .venv/dev, says what is there. Both are gone while something is installed, so that the next one
# starts over after a torn one.
set -euo pipefail
cd "$(dirname "$0")/.."
what=$1 python=${PYTHON:-python3} begun=$SECONDS
locks=("requirements/$what.lock")
[ "$what" = dev ] || locks+=(requirements/build.lock) # dev.lock has what builds prefsvm itself
total=$(grep -hoE '^[a-z0-9._-]+==[^ ]+' "${locks[@]}" | sort -u | wc -l)
echo "Installing $total packages of ${locks[*]} into .venv ..."

"$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "prefsvm needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
if [ "$what" = dev ] && [ -e .venv/local ] && [ ! -e .venv/dev ]; then
  rm .venv/local # the tools come on top
else
  rm -f .venv/local .venv/dev
  "$python" -m venv --clear --without-pip .venv # no ensurepip: Debian packages it apart from Python
fi

pip() { "$python" -m pip --python .venv/bin/python install --disable-pip-version-check "$@"; }
show() { # on one line of a terminal, else a line now and then
  if [ -t 1 ]; then
    printf '\r\033[K  %s' "$1"
  elif [ "$((SECONDS - said))" -ge 10 ]; then
    said=$SECONDS
    echo "  $1"
  fi
}
count() { grep -cE "$1" .venv/pip.log || true; }
packages() { { find .venv/lib -name '*.dist-info' 2> /dev/null || true; } | wc -l; } # pip may remove a folder under its eyes
said=$SECONDS
pip --require-hashes "${locks[@]/#/--requirement=}" > .venv/pip.log 2>&1 &
installing=$!
trap 'kill "$installing" 2> /dev/null || true' EXIT
before=$(packages)
while kill -0 "$installing" 2> /dev/null; do
  needed=$((total - $(count '^Ignoring '))) # what other platforms need
  if grep -q '^Installing collected packages' .venv/pip.log; then
    show "$(($(packages) - before)) of $(grep '^Installing collected packages' .venv/pip.log | tr , '\n' | wc -l) packages installed ($((SECONDS - begun)) s)"
  else
    show "$(count '^(Collecting|Requirement already satisfied:) ') of $needed packages fetched ($((SECONDS - begun)) s)"
  fi
  sleep 0.3
done
[ ! -t 1 ] || printf '\r\033[K'
if ! wait "$installing"; then
  tail -n 20 .venv/pip.log >&2
  exit 1
fi
trap - EXIT
pip --quiet --no-deps --no-build-isolation --editable .
# What reads an upload may write nothing, and would compile its sources for each.
.venv/bin/python -m compileall -q prefsvm service worker solver migrations
echo "  installed in $((SECONDS - begun)) s"
touch .venv/local
[ "$what" = local ] || touch .venv/dev
