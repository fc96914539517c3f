#!/usr/bin/env bash
# Run once by the postgres image, on an empty volume. Two roles: prefsvm_owner makes tables (`prefsvm migrate`),
# prefsvm_app only works in them (API, dispatcher, worker).
set -euo pipefail
secrets=${PREFSVM_SECRETS:-/run/secrets}
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
  --set database="$POSTGRES_DB" \
  --set owner_password="$(<"$secrets/owner_password")" \
  --set app_password="$(<"$secrets/app_password")" <<'SQL'
CREATE ROLE prefsvm_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE prefsvm_app LOGIN PASSWORD :'app_password';
REVOKE ALL ON DATABASE :"database" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"database" TO prefsvm_owner, prefsvm_app;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CREATE, USAGE ON SCHEMA public TO prefsvm_owner;
GRANT USAGE ON SCHEMA public TO prefsvm_app;
ALTER DEFAULT PRIVILEGES FOR ROLE prefsvm_owner IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO prefsvm_app;
ALTER DEFAULT PRIVILEGES FOR ROLE prefsvm_owner IN SCHEMA public
  GRANT USAGE, SELECT ON SEQUENCES TO prefsvm_app;
SQL
