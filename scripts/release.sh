#!/usr/bin/env bash
# Releases the module and its nested modules together, under one version. docs/maintainers/releasing.md is the checklist around it.
#
#   release.sh prepare v0.1.0   writes the version into CHANGELOG.md and the nested modules, to be committed
#   release.sh check v0.1.0     checks the commit, and prints the commands that tag it
#   release.sh tag v0.1.0       checks, and makes the tags here; it pushes nothing
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

usage() { sed -n '4,6s/^# *//p' scripts/release.sh >&2; exit 2; }
[ $# = 2 ] || usage
action=$1 version=$2
[[ $version =~ ^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$ ]] ||
	{ echo "release.sh: $version is no version like v0.1.0" >&2; exit 2; }
library=$("$go" mod edit -json | awk -F '"' '$2 == "Path" { print $4; exit }')

# nested prints the directories of the nested modules that programs install: those with packages, and without a replace, which
# would forbid go install.
nested() {
	local mod dir
	find . -mindepth 2 -name go.mod -not -path '*/testdata/*' -not -path './bin/*' | sort | while read -r mod; do
		dir=$(dirname "${mod#./}")
		! grep -q '^replace' "$mod" || continue
		[ -z "$(cd "$dir" && "$go" list ./... 2>/dev/null)" ] || echo "$dir"
	done
}

prepare() {
	local dir
	! grep -qF "## [${version#v}]" CHANGELOG.md || { echo "release.sh: CHANGELOG.md has a section of $version already" >&2; exit 1; }
	sed -i.old "s/^## \[Unreleased\]\$/&\n\n## [${version#v}] - $(date -u +%Y-%m-%d)/" CHANGELOG.md
	rm CHANGELOG.md.old
	for dir in $(nested); do
		"$go" mod edit -require "$library@$version" "$dir/go.mod"
		# A module that requires this one must not require an older library than it.
		{ find . -mindepth 2 -name go.mod -not -path './bin/*' -exec grep -l "^	$library/$dir v" {} + || true; } | while read -r mod; do
			"$go" mod edit -require "$library@$version" -require "$library/$dir@$version" "$mod"
		done
		[ ! -e "$dir/go.work" ] || {
			sed -i.old "s|^\(replace $library[^ ]*\) v[^ ]* |\1 $version |" "$dir/go.work"
			rm "$dir/go.work.old"
		}
	done
	echo "Look at the changes, commit them, then: scripts/release.sh check $version"
}

# section prints what CHANGELOG.md has under a heading.
section() { awk -v head="## [$1]" '/^## /{ on = index($0, head) == 1; next } on && NF' CHANGELOG.md; }

check() {
	local tag dir last failed=0
	wrong() { echo "release.sh: $*" >&2; failed=1; }

	[ -z "$(git status --porcelain)" ] || wrong "the work tree is not clean"
	for tag in "${tags[@]}"; do
		! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || wrong "the tag $tag exists"
	done
	last=$(git tag --list 'v[0-9]*' --sort=-v:refname | head -n 1)
	[ -z "$last" ] || [ "$(printf '%s\n' "$last" "$version" | sort -V | tail -n 1)" = "$version" ] || wrong "$last is newer than $version"
	grep -qE "^## \[${version#v}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}\$" CHANGELOG.md || wrong "CHANGELOG.md has no heading '## [${version#v}] - DATE'"
	[ -n "$(section "${version#v}")" ] || wrong "CHANGELOG.md says nothing of $version"
	[ -z "$(section Unreleased)" ] || wrong "CHANGELOG.md has changes under Unreleased"
	for dir in "${dirs[@]}"; do
		grep -qE "^(require)?[[:space:]]+$library $version\$" "$dir/go.mod" || wrong "$dir/go.mod does not require $library $version"
		! grep -E "^	$library/[^ ]+ v" "$dir/go.mod" | grep -qv " $version\$" || wrong "$dir/go.mod requires another version of a module than $version"
		[ ! -e "$dir/go.work" ] || ! grep "^replace $library" "$dir/go.work" | grep -qvF " $version =>" || wrong "$dir/go.work does not replace $library $version"
	done
	for page in *.md docs/*.md docs/*/*.md; do
		[ -e "$page" ] || continue
		! tr '\n' ' ' <"$page" | grep -q 'version is tagged yet\|until there is a first one' || wrong "$page says that no version is tagged"
	done
	return $failed
}

dirs=() tags=("$version")
while read -r dir; do # bash 3, that of macOS, has no mapfile
	dirs+=("$dir")
	tags+=("$dir/$version")
done < <(nested)

case $action in
prepare) prepare ;;
check | tag)
	check || exit 1
	for tag in "${tags[@]}"; do
		if [ "$action" = tag ]; then git tag -a -m "$tag" "$tag"; else echo "git tag -a -m $tag $tag"; fi
	done
	# All at once: a nested module without the library's tag cannot be installed.
	echo "git push --atomic origin ${tags[*]}"
	;;
*) usage ;;
esac
