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
echo "Installing what ${locks[*]} names into .venv ..."

"$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "prefsvm needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
if [ "$what" = dev ] && [ -e .venv/local ] && [ ! -e .venv/dev ]; then
  rm .venv/local # the tools come on top
else
  rm -f .venv/local .venv/dev
  "$python" -m venv --clear --without-pip .venv # no ensurepip: Debian packages it apart from Python
fi

pip() { "$python" -m pip --python .venv/bin/python install --disable-pip-version-check "$@"; }
# How far it is, in percent of all and never less than before: to fetch the packages is half of it, to unpack them most of
# the rest. On one line of a terminal, else a line now and then.
said=$SECONDS reached=0
show() {
  [ "$1" -le "$reached" ] || reached=$1
  local line="$reached %: $2 ($((SECONDS - begun)) s)"
  if [ -t 1 ]; then
    printf '\r\033[K  %s' "$line"
  elif [ "$((SECONDS - said))" -ge 10 ]; then
    said=$SECONDS
    echo "  $line"
  fi
}
count() { grep -cE "$1" .venv/pip.log || true; }
packages() { { find .venv/lib -name '*.dist-info' 2> /dev/null || true; } | wc -l; } # pip may remove a folder under its eyes
named=$(grep -hoE '^[a-z0-9._-]+==[^ ]+' "${locks[@]}" | sort -u | wc -l)
pip --require-hashes "${locks[@]/#/--requirement=}" > .venv/pip.log 2>&1 &
installing=$!
trap 'kill "$installing" 2> /dev/null || true' EXIT
before=$(packages)
while kill -0 "$installing" 2> /dev/null; do
  if grep -q '^Installing collected packages' .venv/pip.log; then
    all=$(grep '^Installing collected packages' .venv/pip.log | tr , '\n' | wc -l)
    show $((50 + 45 * ($(packages) - before) / all)) "unpacking packages"
  else
    fetched=$(count '^(Collecting|Requirement already satisfied:) ')
    show $((50 * fetched / (named - $(count '^Ignoring ')))) "fetching packages" # ignored: what other platforms need
  fi
  sleep 0.3
done
if ! wait "$installing"; then
  [ ! -t 1 ] || echo
  tail -n 20 .venv/pip.log >&2
  exit 1
fi
show 95 "compiling prefsvm"
trap - EXIT
pip --quiet --no-deps --no-build-isolation --editable .
# What reads an upload may write nothing, and would compile its sources for each.
.venv/bin/python -m compileall -q prefsvm service worker solver migrations
[ ! -t 1 ] || printf '\r\033[K'
echo "  installed in $((SECONDS - begun)) s"
touch .venv/local
[ "$what" = local ] || touch .venv/dev
