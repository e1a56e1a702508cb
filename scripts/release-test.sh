#!/usr/bin/env bash
# Shows on a small repository that release.sh finds what is wrong, and tags the module and its nested modules together.
set -euo pipefail
release=$(cd "$(dirname "$0")" && pwd)/release.sh
command -v git >/dev/null || { echo "git is not installed: release.sh was not tried"; exit 0; }
repo=$(mktemp -d)
trap 'rm -rf "$repo"' EXIT
cd "$repo"
unset GOFLAGS GOWORK
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org
export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org

commit() { git add -A && git commit -qm "$1"; }

# says WORDS COMMAND... : it fails, and says why.
says() {
	local words=$1 out
	shift
	if out=$("$@" 2>&1); then echo "$*: it succeeded, and should say: $words"; exit 1; fi
	grep -qF "$words" <<<"$out" || { printf '%s does not say: %s\n%s\n' "$*" "$words" "$out"; exit 1; }
}

same() { [ "$1" = "$2" ] || { printf 'got:\n%s\nwant:\n%s\n' "$1" "$2"; exit 1; }; }

# A library, a tool, an example with a replace, and pins without a package.
git init -q -b main
mkdir -p scripts cmd/tool examples/shown tools
cp "$release" scripts/
printf 'module example.org/lib\n\ngo 1.25.0\n' >go.mod
printf 'package lib\n' >lib.go
printf 'module example.org/lib/cmd/tool\n\ngo 1.25.0\n\nrequire example.org/lib v0.0.1\n' >cmd/tool/go.mod
printf 'go 1.25.0\n\nuse (\n\t.\n\t../..\n)\n\nreplace example.org/lib v0.0.1 => ../..\n' >cmd/tool/go.work
printf 'package main\n\nimport _ "example.org/lib"\n\nfunc main() {}\n' >cmd/tool/main.go
printf 'module example.org/lib/examples/shown\n\ngo 1.25.0\n\nrequire (\n\texample.org/lib v0.0.1\n\texample.org/lib/cmd/tool v0.0.0\n)\n\nreplace example.org/lib => ../..\n' >examples/shown/go.mod
printf 'package main\n\nfunc main() {}\n' >examples/shown/main.go
printf 'module example.org/lib/tools\n\ngo 1.25.0\n' >tools/go.mod
printf '# Changelog\n\n## [Unreleased]\n\n- The lock.\n' >CHANGELOG.md
printf 'No version is tagged\nyet; for a clone.\n' >README.md
mkdir docs && echo docs >docs/a.md
commit first

says "no version like v0.1.0" scripts/release.sh check 0.1.0
says "CHANGELOG.md has no heading" scripts/release.sh check v0.1.0
says "has changes under Unreleased" scripts/release.sh check v0.1.0
says "cmd/tool/go.mod does not require example.org/lib v0.1.0" scripts/release.sh check v0.1.0
says "cmd/tool/go.work does not replace example.org/lib v0.1.0" scripts/release.sh check v0.1.0
says "README.md says that no version is tagged" scripts/release.sh check v0.1.0

scripts/release.sh prepare v0.1.0 >/dev/null
says "the work tree is not clean" scripts/release.sh check v0.1.0
grep -q 'example.org/lib v0.1.0' examples/shown/go.mod || { echo "examples/shown requires another version of the library than cmd/tool"; exit 1; }
says "has a section of v0.1.0 already" scripts/release.sh prepare v0.1.0
echo "Versions are tagged." >README.md
commit prepared
same "$(scripts/release.sh check v0.1.0)" "git tag -a -m v0.1.0 v0.1.0
git tag -a -m cmd/tool/v0.1.0 cmd/tool/v0.1.0
git push --atomic origin v0.1.0 cmd/tool/v0.1.0"
same "$(git tag)" ""
scripts/release.sh tag v0.1.0 >/dev/null
same "$(git tag)" "cmd/tool/v0.1.0
v0.1.0"
same "$(git cat-file -t cmd/tool/v0.1.0)" tag
says "the tag cmd/tool/v0.1.0 exists" scripts/release.sh tag v0.1.0

scripts/release.sh prepare v0.0.9 >/dev/null
commit older
says "v0.1.0 is newer than v0.0.9" scripts/release.sh check v0.0.9
says "CHANGELOG.md says nothing of v0.0.9" scripts/release.sh check v0.0.9
