#!/usr/bin/env bash
# Builds zklock for Linux as .deb, .rpm and .apk into bin/packages, with the manual page, the completions and the systemd units
# of packaging/, and SHA256SUMS. VERSION, such as v0.1.0, is the version; without it the packages have version 0.0.0, with the
# time of the commit. Of one commit and by one version of Go they are the same to the byte.
#
# Then it lists them, with dpkg and rpm where they are installed, and as root it installs the .deb into an empty directory, runs
# zklock there with nothing but that directory, and removes it.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
out=$PWD/bin/packages
export BUILD=$out/build ARCH PACKAGE_VERSION SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
PACKAGE_VERSION=${VERSION:-v0.0.0-git$SOURCE_DATE_EPOCH}

rm -rf "$out"
PLATFORMS='linux/amd64 linux/arm64' OUT=bin/packages/build GO=$go scripts/binaries.sh >/dev/null
gzip -n9 "$BUILD/zklock.1"
for shell in bash zsh fish; do
	(cd cmd/zklock && "$go" run . completion "$shell") >"$BUILD/zklock.$shell"
done
cp LICENSE packaging/zklock* "$BUILD"
touch -d "@$SOURCE_DATE_EPOCH" "$BUILD"/*
nfpm=$("$go" tool -n -modfile=tools/nfpm/go.mod nfpm)
for ARCH in amd64 arm64; do
	for format in deb rpm apk; do
		"$nfpm" package -f packaging/nfpm.yaml -p "$format" -t "$out/" >/dev/null
	done
done
(cd "$out" && sha256sum ./*.{deb,rpm,apk} >SHA256SUMS && cat SHA256SUMS)

fail() { echo "packages.sh: $*" >&2; exit 1; }

# has NAME UNITS, with a list of the package's files as input, checks that they are all there.
has() {
	local name=$1 files path
	shift
	files=$(sed 's,^\./,/,; s,^\([^/]\),/\1,')
	for path in /usr/bin/zklock /usr/share/man/man1/zklock.1.gz /usr/share/bash-completion/completions/zklock /etc/zklock/zklock.conf "$@"; do
		grep -qxF "$path" <<<"$files" || fail "$name has no $path, but $files"
	done
	echo "ok    $name: $(grep -c '[^/]$' <<<"$files") files"
}

units=(/usr/lib/systemd/system/zklock@.service /usr/lib/systemd/system/zklock@.timer)
for file in "$out"/*.apk; do
	tar -tzf "$file" 2>/dev/null | has "$(basename "$file")"
done
for file in "$out"/*.rpm; do
	! command -v rpm >/dev/null || rpm -qlp "$file" | has "$(basename "$file")" "${units[@]}"
done
command -v dpkg-deb >/dev/null || { echo "?     no dpkg: the .deb is not tried"; exit 0; }
for file in "$out"/*.deb; do
	dpkg-deb --fsys-tarfile "$file" | tar -t | has "$(basename "$file")" "${units[@]}"
done
[ "$(id -u)" = 0 ] || { echo "?     not root: the .deb is not installed"; exit 0; }

# An empty directory with dpkg's own files: zklock needs nothing else.
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/var/lib/dpkg/{info,updates} "$root"/var/log
touch "$root"/var/lib/dpkg/{status,available}
file=$(echo "$out"/zklock_*_"$(dpkg --print-architecture)".deb)
dpkg --root="$root" -i "$file" >/dev/null
version=$(env -i "$(command -v chroot)" "$root" /usr/bin/zklock version)
[[ $version == "zklock "* ]] || fail "zklock version prints $version"
echo "ok    installed alone in a directory: $version"
man -l "$root/usr/share/man/man1/zklock.1.gz" 2>/dev/null | grep -q 'run a command while it holds a lock' || ! command -v man >/dev/null || fail "man cannot show the page"
if command -v systemd-analyze >/dev/null; then
	mkdir "$root/units"
	cp "$root"/usr/lib/systemd/system/zklock@.* "$root/units"
	sed -i "s,/usr/bin/zklock,$root&," "$root/units/zklock@.service" # it has to be there
	said=$(SYSTEMD_UNIT_PATH=$root/units: systemd-analyze verify --man=no zklock@nightly.timer zklock@nightly.service 2>&1) || fail "$said"
	[ -z "$said" ] || fail "$said"
	echo "ok    systemd-analyze verify"
fi
dpkg --root="$root" -P zklock >/dev/null
left=$(find "$root" -name '*zklock*' -not -path "$root/units/*")
[ -z "$left" ] || fail "files are left: $left"
echo "ok    removed"
