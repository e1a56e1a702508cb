#!/usr/bin/env bash
# Runs the tests of all modules with the race detector, or those of the packages in PKG. Arguments go to go test. It goes through
# all modules, then fails if a test did.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
# The race detector would have each test binary sleep for a second at its end, for goroutines that still run: goleak finds those.
export GORACE="atexit_sleep_ms=0 ${GORACE:-}"
# Hours of virtual time take several times as long with the race detector.
unraced='^(TestHealthyFleets|TestAlertsFire|TestWhatIdleLocksCost|TestWhatAKeepCosts|TestACycleCostsTheSame)'

# Nested modules are not part of ./... and need a call of their own.
nested=(cmd/zklock examples/gocron examples/metrics kerberos examples/tracing metrics)

# inside DIR ARGUMENTS... : make lint vets, and without a debugger's tables a test binary links in a fifth of the time.
inside() {
	local dir=$1
	shift
	(cd "$dir" && "$go" test -count=1 -vet=off -ldflags=-w -timeout "${TIMEOUT:-6m}" "$@")
}

# theirs DIR ARGUMENTS... : a nested module.
theirs() {
	local dir=$1 status=0
	shift
	inside "$dir" -race -skip "$unraced" "$@" || status=1
	case $dir in metrics) inside "$dir" -run "$unraced" "$@" || status=1 ;; esac
	return $status
}

# Every benchmark runs once, without the race detector, so that none of them breaks unseen, and with them what is unraced.
ours() {
	local status=0 dir packages=() skip=()
	case " $* " in *" ./... "*) skip=(-skip "$unraced") ;; esac
	inside . -race -p "${PARALLEL:-3}" ${skip[@]+"${skip[@]}"} "$@" || status=1
	case " $* " in
	*" ./... "*)
		# bash 3, that of macOS, has no mapfile, and takes an empty array for an unset one.
		while read -r dir; do
			packages+=("$dir")
		done <<<"$(grep -rl --include='*_test.go' --exclude-dir=bin --exclude-dir=cmd --exclude-dir=examples --exclude-dir=tools --exclude-dir=metrics --exclude-dir=kerberos \
			'^func Benchmark' . | xargs -n1 dirname | sort -u)"
		inside . -run "$unraced" -bench . -benchtime 1x ${flags[@]+"${flags[@]}"} "${packages[@]}" || status=1
		;;
	esac
	return $status
}

case "${PKG:-./metrics}" in *./metrics*) scripts/promtool.sh ;; esac

flags=("$@")
running=()
if [ -z "${PKG:-}" ]; then
	for dir in "${nested[@]}"; do
		theirs "$dir" "$@" ./... & running+=($!)
	done
	ours "$@" ./... & running+=($!)
else
	packages=()
	for package in $PKG; do
		for dir in "${nested[@]}"; do
			case $package in "./$dir" | "./$dir"/*)
				theirs "$dir" "$@" ".${package#"./$dir"}" & running+=($!)
				continue 2
				;;
			esac
		done
		packages+=("$package")
	done
	if [ ${#packages[@]} -gt 0 ]; then
		ours "$@" "${packages[@]}" & running+=($!)
	fi
fi

failed=0
for pid in "${running[@]}"; do
	wait "$pid" || failed=1
done
exit $failed
