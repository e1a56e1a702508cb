#!/usr/bin/env bash
# Makes sure that what make interop tests with is there: Curator and a Java compiler, kazoo, and a Kerberos KDC.
set -euo pipefail

missing=()
[ -e /usr/share/java/curator-recipes.jar ] || missing+=(libcurator-recipes-java)
command -v javac >/dev/null || missing+=(default-jdk-headless)
{ [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import kazoo.client' 2>/dev/null; } ||
	python3 -c 'import kazoo.client' 2>/dev/null || missing+=(python3-kazoo)
(PATH=$PATH:/usr/sbin; command -v krb5kdc && command -v kadmin.local && command -v kinit) >/dev/null ||
	missing+=(krb5-kdc krb5-admin-server krb5-user)
[ ${#missing[@]} -gt 0 ] || exit 0

command -v apt-get >/dev/null || { echo "Not installed, and there is no apt-get: ${missing[*]}" >&2; exit 1; }
sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || { echo "Install ${missing[*]} as root." >&2; exit 1; }
	sudo=sudo
fi
echo "Installing ${missing[*]} with apt-get."
$sudo apt-get update -qq
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
