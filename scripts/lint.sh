#!/usr/bin/env bash
# Everything that can be said about the code without running it. Goes through all checks, then fails if one did.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
failed=0

# check NAME COMMAND... : quiet when all is well.
check() {
	local name=$1 out start=$SECONDS
	shift
	if out=$("$@" 2>&1); then
		printf 'ok    %s (%ds)\n' "$name" $((SECONDS - start))
	else
		printf 'FAIL  %s\n%s\n' "$name" "$out"
		failed=1
	fi
}

# formatted names the files that gofmt would change. What make writes into bin is no source.
formatted() {
	local out
	out=$(find . -path ./bin -prune -o -name '*.go' -exec gofmt -l {} +) || return 1
	[ -z "$out" ] || { printf '%s\n' "$out"; return 1; }
}

# once: of two defaults of a variable make takes the first.
once() {
	local twice
	twice=$(sed -n 's/^\([A-Z_]*\) *?=.*/\1/p' Makefile | sort | uniq -d)
	[ -z "$twice" ] || { echo "Makefile gives $twice two defaults"; return 1; }
}

# github checks the workflows, and that dependabot knows each module.
github() {
	local mod dir failed=0
	"$("$go" tool -n -modfile=tools/go.mod actionlint)" .github/workflows/*.yml || failed=1
	while read -r mod; do
		dir=$(dirname "${mod#.}")
		grep -qx "      - $dir" .github/dependabot.yml || { echo ".github/dependabot.yml does not name $dir"; failed=1; }
	done < <(find . -name go.mod -not -path '*/testdata/*' -not -path './bin/*')
	return $failed
}

# inside DIR COMMAND... : nested modules are not part of ./... and need a call of their own.
inside() { (cd "$1" && shift && "$@"); }

scripts=$PWD/scripts
# The program itself: go tool would look for it in a workspace, where there is one.
staticcheck=$("$go" tool -n -modfile=tools/go.mod staticcheck)
check gofmt formatted
check Makefile once
check "mutants and shortcuts fit" "$go" run ./internal/test/mutants -fits
while read -r mod; do
	dir=$(dirname "$mod")
	check "go mod tidy, $dir" inside "$dir" env GO="$go" "$scripts/tidy.sh" -diff
	check "go mod verify, $dir" inside "$dir" "$go" mod verify
	# A module of nothing but tool pins has no packages. If they cannot be listed, vet says why.
	! packages=$(inside "$dir" "$go" list ./... 2>/dev/null) || [ -n "$packages" ] || continue
	check "go vet, $dir" inside "$dir" "$go" vet ./...
	check "staticcheck, $dir" inside "$dir" "$staticcheck" -checks all ./...
done < <(find . -name go.mod -not -path '*/testdata/*' | sort)
check "GitHub's files" github
if ! why=$(git tag 2>&1); then
	echo "?     API: not compared, for git does not tell which versions are tagged: $why"
elif tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null); then
	check "API since $tag" env GO="$go" "$scripts/api.sh" "$tag"
else
	echo 'ok    API: no version is tagged, so there is nothing to compare it with'
fi
exit $failed
