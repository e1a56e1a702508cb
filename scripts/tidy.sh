#!/usr/bin/env bash
# go mod tidy of the module in the present directory; with -diff, as go has it, it only says what would change. A module
# beside a go.work may ask for a version of this library that is not published yet, which the workspace replaces. go mod tidy
# does not look there, so it works on a copy of go.mod that says the same.
set -euo pipefail
go=${GO:-go}
[ -e go.work ] || exec "$go" mod tidy "$@"
library=github.com/zklocks/zklocks
root=$(cd "$(dirname "$0")/.." && pwd)
copy=$(mktemp -d)
trap 'rm -r "$copy"' EXIT
cp go.mod go.sum "$copy"
"$go" mod edit -replace "$library=$root" "$copy/go.mod"
GOWORK=off "$go" mod tidy -modfile="$copy/go.mod" "$@"
"$go" mod edit -dropreplace "$library" "$copy/go.mod"
cmp -s "$copy/go.mod" go.mod || cp "$copy/go.mod" go.mod
cmp -s "$copy/go.sum" go.sum || cp "$copy/go.sum" go.sum
