#!/usr/bin/env bash
# go mod tidy of the module in the present directory; with -diff, as go has it, it only says what would change. A module
# beside a go.work may ask for versions of this library that are not published yet, which the workspace replaces. go mod tidy
# does not look there, so it works on a copy of go.mod that says the same.
set -euo pipefail
go=${GO:-go}
[ -e go.work ] || exec "$go" mod tidy "$@"
copy=$(mktemp -d)
trap 'rm -r "$copy"' EXIT
cp go.mod go.sum "$copy"
replaced=$(awk '$1 == "replace" { print $2, $5 }' go.work)
while read -r module dir; do "$go" mod edit -replace "$module=$(cd "$dir" && pwd)" "$copy/go.mod"; done <<<"$replaced"
GOWORK=off "$go" mod tidy -modfile="$copy/go.mod" "$@"
while read -r module _; do "$go" mod edit -dropreplace "$module" "$copy/go.mod"; done <<<"$replaced"
cmp -s "$copy/go.mod" go.mod || cp "$copy/go.mod" go.mod
cmp -s "$copy/go.sum" go.sum || cp "$copy/go.sum" go.sum
