#!/usr/bin/env bash
# Makes deploy/secrets/ with fresh random passwords and the first API key for docker-compose.yml. Refuses to replace existing ones: the
# databases keep the passwords that they were first started with.
set -euo pipefail
folder=${1:-$(dirname "$0")/secrets}
if [ -e "$folder" ]; then
  echo "$folder is there already; remove it (and the volumes that were made with it) to start anew" >&2
  exit 1
fi

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# An API key as `prefsvm keys new` makes one: the id, 256 bits in 43 of 62 characters, and their CRC-32 in six more.
letters() { head -c 8192 /dev/urandom | LC_ALL=C tr -dc 0-9A-Za-z; }
api_key() {
  local alphabet=0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz id secret rest checksum=
  id=$(letters) secret=$(letters)
  set -- "pfs_${id:0:8}_${secret:0:43}"
  rest=$(printf %s "$1" | gzip -c | tail -c 8 | od -An -N4 -tu4 --endian=little)
  for _ in 1 2 3 4 5 6; do
    checksum=${alphabet:rest % 62:1}$checksum
    rest=$((rest / 62))
  done
  printf %s "$1$checksum"
}
superuser=$(random) owner=$(random) redis=$(random)

# The folder keeps everyone else out. The files in it must be readable: a container sees them as they are, under the
# uid of its own process.
install --directory --mode 0700 "$folder"
umask 022
printf %s "$superuser" > "$folder/postgres_password"
printf %s "$owner" > "$folder/owner_password"
api_key > "$folder/bootstrap_key"
# Celery's client may work on its own keys and run the Lua script of its lock; no administration.
cat > "$folder/redis_users" <<EOF
user default on nopass resetkeys resetchannels -@all +ping
user prefsvm on #$(printf %s "$redis" | sha256sum | cut -d ' ' -f 1) ~prefsvm* ~_kombu* ~unacked* resetchannels &prefsvm* -@all +@read +@write +@pubsub +@transaction +@connection +@scripting -@dangerous +info +client|list
EOF
cat > "$folder/migrate.env" <<EOF
PREFSVM_DATABASE_URL=postgresql://prefsvm_owner:$owner@postgres:5432/prefsvm
EOF
# Each process knows the password of its own role of Postgres and no other; the API of two.
for role in api system dispatcher worker; do
  password=$(random)
  printf %s "$password" > "$folder/${role}_password"
  address=postgresql://prefsvm_$role:$password@postgres:5432/prefsvm
  if [ "$role" = system ]; then
    echo "PREFSVM_SYSTEM_DATABASE_URL=$address" >> "$folder/api.env"
  else
    printf '%s\n' "PREFSVM_DATABASE_URL=$address" "PREFSVM_BROKER_URL=redis://prefsvm:$redis@redis:6379/0" > "$folder/$role.env"
  fi
done
# The mail filter works as the API does, and needs no broker.
grep -v BROKER "$folder/api.env" > "$folder/mail.env"
echo "wrote $folder"
