#!/bin/sh
# Install the programs that tests/peers and the PostgreSQL tests run, and packages that are named, on Debian. Starts no daemon.
set -eu

packages="389-ds-base acme-tiny acmetool apache2 ca-certificates caddy certbot chromium curl dehydrated gcc knot knot-dnsutils krb5-admin-server krb5-kdc krb5-pkinit krb5-user ldap-utils lego libapache2-mod-auth-gssapi libapache2-mod-auth-openidc libfaketime libkrb5-dev libnginx-mod-http-js libpam-krb5 libpam-wrapper libsasl2-modules-gssapi-mit nginx oathtool openssh-client openssl pebble postgresql python3-dev slapd sssd-idp tor uacme unbound $*"

missing=""
for package in $packages; do
    dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "make peers needs root to install:$missing" >&2
    exit 2
fi

# Clusters are made by the tests themselves, in folders of their own.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
fi
# 101: policy-rc.d's word for "do not start it" (invoke-rc.d).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold $missing

# The tests have PAM services of their own: those of the machine stay as they were.
case "$missing" in *libpam-krb5*) pam-auth-update --package --remove krb5 ;; esac
