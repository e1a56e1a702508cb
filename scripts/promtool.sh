#!/usr/bin/env bash
# Makes sure that promtool is there for the tests of the alerts: on PATH, as PROMTOOL names it, or in bin. Only this program of
# Debian's package is unpacked: an installed package would start a Prometheus.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -z "${PROMTOOL:-}" ] || exit 0
! command -v promtool >/dev/null || exit 0
[ ! -x bin/promtool ] || exit 0

if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
	echo "Unpacking promtool of Debian's package prometheus into bin."
	if ! apt-cache show prometheus >/dev/null 2>&1; then
		sudo=
		[ "$(id -u)" = 0 ] || sudo=sudo
		$sudo apt-get update -qq
	fi
	work=$(mktemp -d)
	trap 'rm -r "$work"' EXIT
	(cd "$work" && apt-get -o APT::Sandbox::User=root download -qq prometheus)
	dpkg-deb -x "$work"/prometheus_*.deb "$work/root"
	mkdir -p bin
	mv "$work/root/usr/bin/promtool" bin/promtool
elif command -v brew >/dev/null; then
	echo "Installing prometheus, which has promtool, with brew."
	brew install prometheus </dev/null
else
	echo "Install promtool, which comes with Prometheus, or set PROMTOOL to its path." >&2
	exit 1
fi
