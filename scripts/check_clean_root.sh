#!/usr/bin/env bash
# Checks in a clean Debian 12 root what needs a clean machine, without a container engine:
#
#   scripts/check_clean_root.sh --image [cpu|cuda]   run the Dockerfile's steps, then the result as its user, read-only
#   scripts/check_clean_root.sh --demo               `make demo` and `make test` from a clean clone, with nothing but
#                                                    python3, pip and make (add --user to run them as an ordinary user)
#
# Needs root, debootstrap and git. What is checked is HEAD, not the working tree. Everything lives in a temporary folder
# that is removed at the end; the mounts and processes are in namespaces of their own and end with the script. Where
# packages come from is taken from this machine's own apt and pip configuration.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)

fail() {
  echo "check_clean_root: $*" >&2
  exit 1
}

# --- the clean root -------------------------------------------------------------------------------------------------

# Where this machine gets Debian from: "address suite" a line.
apt_sources() {
  # shellcheck disable=SC2016 # apt's own variables
  apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 'Component: main' |
    grep -E ' bookworm(-updates|-security)?$' | sort -u
}

make_root() { # FOLDER: Debian 12 that finds its packages as this machine does
  local root=$1 mirror
  mirror=$(apt_sources | awk '$2 == "bookworm" {print $1; exit}')
  [ -n "$mirror" ] || fail "apt on this machine knows no source of Debian 12 (bookworm)"
  echo "== A clean Debian 12"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror" > "$root.log" 2>&1 ||
    fail "debootstrap failed: $(tail -n 5 "$root.log")"
  chmod 0755 "$root"
  apt_sources | awk '{print "deb", $1, $2, "main"}' > "$root/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https)' > "$root/etc/apt/apt.conf.d/90machine" || true
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  echo "127.0.0.1 localhost $(hostname)" > "$root/etc/hosts" # the installer's work, not debootstrap's
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d" # packages start no services
  chmod 0755 "$root/usr/sbin/policy-rc.d"

  # This machine's certificates and pip configuration.
  cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root/etc/ssl/certs/ca-certificates.crt"
  [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/pip.conf"
  mkdir -p "$root/etc/xdg/pip"
  [ ! -f ~/.config/pip/pip.conf ] || cp ~/.config/pip/pip.conf "$root/etc/xdg/pip/pip.conf"
}

add_packages() { # FOLDER PACKAGE…
  local root=$1
  shift
  echo "== Packages: $*"
  chroot "$root" sh -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes \
    --no-install-recommends "$@"' - "$@" > "$root.log" 2>&1 || fail "apt-get failed: $(tail -n 5 "$root.log")"
}

# Folders with packages that pip's configuration names, so that they can be shown inside.
pip_folders() {
  { cat /etc/pip.conf ~/.config/pip/pip.conf 2> /dev/null || true; env | grep '^PIP_' || true; } |
    grep -oE '(file://|[ =])/[^ ]+' | sed -E 's#^(file://|[ =])##; s#/simple/?$##' | sort -u |
    while read -r folder; do [ ! -d "$folder" ] || echo "$folder"; done
}

mount_root() { # FOLDER: /proc, /dev and pip's folders
  local root=$1 folder
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  for folder in $(pip_folders); do
    mkdir -p "$root$folder"
    mount --bind -o ro "$folder" "$root$folder"
  done
}

# The variables of this machine that its package tools need, and nothing else.
clean_environment() {
  local kept
  mapfile -t kept < <(env | grep -E '^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE=|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)')
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${kept[@]}" "$@"
}

# --- the image ------------------------------------------------------------------------------------------------------

check_image() { # FOLDER TARGET
  local work=$1 target=$2 config root
  make_root "$work/servers"
  cp --archive "$work/servers" "$work/base"
  add_packages "$work/base" python3 python3-venv # stands for python:3.11-slim-bookworm
  echo "== The Dockerfile's steps, target $target"
  mkdir "$work/stages"
  config=$(clean_environment "$(command -v python3)" "$repository/scripts/run_dockerfile.py" "$target" \
    --context "$work/clone" --base "$work/base" --stages "$work/stages")

  echo "== The stack of docker-compose.yml, as its user in a read-only tree, cut off from the network"
  add_packages "$work/servers" postgresql redis-server
  mount -t proc proc "$work/servers/proc"
  cp --recursive "$work/clone/deploy" "$work/servers/deploy"
  "$work/clone/deploy/make_secrets.sh" "$work/servers/run/secrets"
  chmod 0755 "$work/servers/run/secrets" # a container sees the single files
  root=$work/stages/$target
  echo "127.0.0.1 localhost postgres redis" > "$root/etc/hosts"
  mount --bind "$root" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o size=256m,mode=1777,nosuid,nodev tmpfs "$root/tmp"
  mount -t tmpfs -o size=1g,mode=0700,uid=10001,gid=10001 tmpfs "$root/var/lib/prefsvm"
  mount -o remount,ro,bind "$root"
  unshare --net sh -c 'ip link set lo up && exec "$@"' - \
    "$(command -v python3)" "$work/clone/scripts/check_image.py" "$root" "$config" "$work/servers"
}

# --- demo and tests -------------------------------------------------------------------------------------------------

check_demo() { # FOLDER ACCOUNT
  local work=$1 account=$2 home=/root goal process
  make_root "$work/base"
  add_packages "$work/base" python3 python3-pip make
  mount_root "$work/base"
  if [ "$account" != root ]; then
    home=/home/$account
    chroot "$work/base" useradd --create-home --shell /bin/bash "$account"
  fi
  cp --archive "$work/clone" "$work/base$home/prefsvm"
  chroot "$work/base" chown -R "$account:" "$home/prefsvm"
  for goal in demo test; do
    echo "== make $goal as $account"
    clean_environment HOME="$home" CI="${CI:-}" \
      chroot --userspec="$account:$account" "$work/base" sh -c "cd $home/prefsvm && make $goal"
    for process in /proc/[0-9]*; do
      [ "$(readlink "$process/root")" != "$work/base" ] ||
        fail "make $goal left this running: $(tr '\0' ' ' < "$process/cmdline")"
    done
    echo "== make $goal left nothing running"
  done
}

# --- what is called -------------------------------------------------------------------------------------------------

if [ "${1:-}" = --inside ]; then
  shift
  "$@"
  exit
fi
case "${1:-}" in
  --image) inside=(check_image WORK "${2:-cpu}") ;;
  --demo) inside=(check_demo WORK "$([ "${2:-}" = --user ] && echo tester || echo root)") ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" && exit 2 ;;
esac
[ "$(id -u)" = 0 ] || fail "chroot needs root"
command -v debootstrap > /dev/null || fail "debootstrap is missing: apt-get install debootstrap"
work=$(mktemp --directory)
# The namespaces are gone by then, and with them every mount below the folder.
trap 'rm -rf --one-file-system "$work"' EXIT
git clone --quiet --no-hardlinks "$repository" "$work/clone"
unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
  nice -n 10 "$0" --inside "${inside[@]/WORK/$work}"
