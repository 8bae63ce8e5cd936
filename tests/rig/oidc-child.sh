#!/bin/sh
# Unpack a newer oidc_child of SSSD, one that looks up users and groups (2.11 and later), below a folder. Nothing is installed.
# It comes as a package of Debian sid, from the mirror that apt is configured with, and runs with the libraries of this Debian.
set -eu

folder=$1
[ ! -x "$folder/usr/libexec/sssd/oidc_child" ] || exit 0
mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' | sed -n 's/ Debian Debian$//p' | sort -u | head -n 1)
[ -n "$mirror" ] || { echo 'apt knows no mirror of Debian: the look-ups of SSSD are skipped' >&2; exit 0; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/unpacked"
: > "$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" > "$work/sources.list"
cat > "$work/apt.conf" <<CONF
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$work/lists";
Dir::State::Status "$work/status";
Dir::Cache "$work/cache";
Acquire::Languages "none";
APT::Sandbox::User "$(id -un)";
CONF
export APT_CONFIG="$work/apt.conf"
apt-get update -qq
(cd "$work" && apt-get download -qq sssd-idp sssd-common)
for package in "$work"/*.deb; do dpkg-deb --extract "$package" "$work/unpacked"; done

mkdir -p "$folder/usr/libexec/sssd" "$folder/usr/lib"
cp "$work"/unpacked/usr/lib/*/sssd/libsss_debug.so "$folder/usr/lib/"
cp "$work/unpacked/usr/libexec/sssd/oidc_child" "$folder/usr/libexec/sssd/"
