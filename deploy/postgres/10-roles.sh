#!/usr/bin/env bash
# Run once by the postgres image, on an empty volume; may be run again. prefsvm_owner makes tables and gives the others
# their rights to them (`prefsvm migrate`, service/db/roles.py); these only work in them.
set -euo pipefail
secrets=${PREFSVM_SECRETS:-/run/secrets}
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set database="$POSTGRES_DB" \
  --set owner_password="$(<"$secrets/owner_password")" \
  --set api_password="$(<"$secrets/api_password")" \
  --set system_password="$(<"$secrets/system_password")" \
  --set dispatcher_password="$(<"$secrets/dispatcher_password")" \
  --set worker_password="$(<"$secrets/worker_password")" <<'SQL'
SELECT format('CREATE ROLE %I', name)
  FROM unnest(ARRAY['prefsvm_owner', 'prefsvm_api', 'prefsvm_system', 'prefsvm_dispatcher', 'prefsvm_worker']) AS name
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
\gexec
ALTER ROLE prefsvm_owner LOGIN PASSWORD :'owner_password';
ALTER ROLE prefsvm_api LOGIN PASSWORD :'api_password';
ALTER ROLE prefsvm_system LOGIN PASSWORD :'system_password';
ALTER ROLE prefsvm_dispatcher LOGIN PASSWORD :'dispatcher_password';
ALTER ROLE prefsvm_worker LOGIN PASSWORD :'worker_password';
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"database"
  TO prefsvm_owner, prefsvm_api, prefsvm_system, prefsvm_dispatcher, prefsvm_worker;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CREATE, USAGE ON SCHEMA public TO prefsvm_owner;
GRANT USAGE ON SCHEMA public TO prefsvm_api, prefsvm_system, prefsvm_dispatcher, prefsvm_worker;
SQL
