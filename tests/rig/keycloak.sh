#!/bin/sh
# Puts the Keycloak in a folder together for what the tests ask of it: it would do that at each start else, for half a minute and more.
set -e
for program in "$1"/keycloak-*/bin/kc.sh; do
  JAVA_OPTS_APPEND="-XX:TieredStopAtLevel=1" "$program" build --db=dev-mem --cache=local >"$1/build.log" 2>&1 || { cat "$1/build.log" >&2; exit 1; }
done
