#!/usr/bin/env bash
# Runs the tests of all modules with the race detector, or those of the packages in PKG. Arguments go to go test. It goes through
# all modules, then fails if a test did.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
failed=0

# inside DIR ARGUMENTS... : nested modules are not part of ./... and need a call of their own.
inside() {
	local dir=$1
	shift
	(cd "$dir" && "$go" test -race -count=1 -timeout "${TIMEOUT:-6m}" "$@") || failed=1
}

if [ -n "${PKG:-}" ]; then
	ours=()
	for package in $PKG; do
		for dir in cmd/zklock examples/metrics; do
			case $package in
			./$dir | ./$dir/*)
				inside "$dir" "$@" ".${package#"./$dir"}"
				continue 2
				;;
			esac
		done
		ours+=("$package")
	done
	[ ${#ours[@]} = 0 ] || inside . -p "${PARALLEL:-1}" "$@" "${ours[@]}"
	exit $failed
fi

inside . -p "${PARALLEL:-1}" "$@" ./...
inside cmd/zklock "$@" ./...
inside examples/metrics "$@" ./...
exit $failed
