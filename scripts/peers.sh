#!/usr/bin/env bash
# Makes sure that the other libraries with which make interop tests are there: Curator and a Java compiler, and kazoo; with
# an argument, etcd, too.
set -euo pipefail

missing=()
[ -e /usr/share/java/curator-recipes.jar ] || missing+=(libcurator-recipes-java)
command -v javac >/dev/null || missing+=(default-jdk-headless)
{ [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import kazoo.client' 2>/dev/null; } ||
	python3 -c 'import kazoo.client' 2>/dev/null || missing+=(python3-kazoo)
[ "${1:-}" != etcd ] || { command -v etcd && command -v etcdctl; } >/dev/null || missing+=(etcd-server etcd-client)
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
