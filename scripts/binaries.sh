#!/usr/bin/env bash
# Builds zklock for Linux and macOS, or for PLATFORMS, into bin/release, or into OUT, with its manual page and SHA256SUMS. Of
# one commit and by one version of Go the files are the same to the byte, wherever they are built. VERSION is what zklock
# version prints; by default, what git describe does.
#
# With -check it builds them again, from a copy in another directory and with an empty cache, and compares.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
read -ra platforms <<<"${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}"
release=${OUT:-bin/release}

# What the user's environment could add is left out.
unset GOAMD64 GOARM64 GOEXPERIMENT GOWORK
export GOFLAGS='' CGO_ENABLED=0

# build DIR VERSION builds the checkout in the present directory.
build() {
	local out=$1 version=$2 platform
	rm -rf "$out"
	mkdir -p "$out"
	for platform in "${platforms[@]}"; do
		(
			cd cmd/zklock
			# The version stands for the commit: stamps of git would differ where there is no repository.
			GOOS=${platform%/*} GOARCH=${platform#*/} "$go" build -trimpath -buildvcs=false \
				-ldflags "-s -w -buildid= -X main.version=$version" -o "$out/zklock-${platform//\//-}" .
		)
	done
	(cd cmd/zklock && "$go" run -ldflags "-X main.version=$version" . help -man) >"$out/zklock.1"
	(cd "$out" && sha256 zklock*) >"$out/SHA256SUMS"
}

# sha256 is called shasum on macOS.
sha256() {
	if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

version=${VERSION:-$(git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo '(devel)')}
build "$PWD/$release" "$version"
echo "zklock $version by $("$go" env GOVERSION), in $release:"
cat "$release/SHA256SUMS"
[ "${1:-}" = -check ] || exit 0

copy=$(mktemp -d)
trap 'chmod -R u+w "$copy" && rm -r "$copy"' EXIT
first=$PWD/$release
tar -c --exclude ./bin --exclude ./.git . | tar -x -C "$copy"
cd "$copy"
GOCACHE=$copy/.cache build "$copy/bin/release" "$version"
if cmp -s "$first/SHA256SUMS" bin/release/SHA256SUMS; then
	echo "Built again in another directory: the same to the byte."
else
	echo "Built again in another directory, they differ:" >&2
	diff "$first/SHA256SUMS" bin/release/SHA256SUMS >&2
	exit 1
fi
