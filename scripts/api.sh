#!/usr/bin/env bash
# api.sh TAG compares what the module exports with that version. Before v1 an incompatible change may be made if CHANGELOG.md
# names it under Unreleased; from v1 on it may not.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
tag=$1
module=$("$go" list -m)
apidiff=$("$go" tool -n -modfile=tools/go.mod apidiff)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
mkdir "$work/old"
git archive "$tag" | tar -x -C "$work/old"

export_api() { (cd "$1" && "$apidiff" -m -w "$2" "$module" 2> >(grep -v '^Ignoring internal package' >&2)); }
export_api "$work/old" "$work/old.api"
export_api . "$work/new.api"
changes=$("$apidiff" -m -incompatible "$work/old.api" "$work/new.api" 2> >(grep -v '^Ignoring internal package' >&2))

unreleased=$(awk '/^## /{on = /^## \[Unreleased\]/} on' CHANGELOG.md)
failed=0
# A line is "- ./rwlock.(*RWMutex).TryLock: removed".
while read -r dash what; do
	[ "$dash" = - ] || continue
	name=${what%%:*}
	case $tag in
	v0.*) ! grep -qwF -- "${name##*[./]}" <<<"$unreleased" || continue ;;
	esac
	echo "incompatible with $tag: $what"
	failed=1
done <<<"$changes"
[ $failed = 0 ] || echo "Before v1: name it in CHANGELOG.md under Unreleased. From v1 on: keep what there was."
exit $failed
