#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, each for the time given. A failing input is kept by
# go test under testdata/fuzz: commit it together with the mend.
#
# By default go test tries for up to a minute to make each input that reaches something new shorter: where inputs are long
# that is all the time there is.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
fuzztime=${1:-60s}

# go test -list prints the targets of a package and then "ok <package> <time>".
list=$("$go" test -list '^Fuzz' ./...) || { printf '%s\n' "$list" >&2; exit 1; }
targets=$(awk '/^Fuzz/ { names[++n] = $1 }
	/^ok/ { for (i = 1; i <= n; i++) print $2, names[i]; n = 0 }' <<<"$list")
[ -n "$targets" ] || { echo "no fuzz targets" >&2; exit 1; }

while read -r package target; do
	echo "$package $target"
	"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 1s "$package" </dev/null
done <<<"$targets"
