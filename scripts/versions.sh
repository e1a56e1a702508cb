#!/usr/bin/env bash
# Runs the tests that meet a server or a peer on each version that Debian has, and writes the table in docs/reference/versions.md.
# DIR (default: bin/versions) is where the versions are unpacked that are not installed. It goes through all, then fails
# if a test did.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go} dir=${DIR:-$PWD/bin/versions} page=docs/reference/versions.md failed=0
export ZKLOCKS_REAL=1 INTEROP=1
scripts/zookeeper.sh
scripts/peers.sh
# What selects a version is set here, or all rows would be of the same one.
unset ZK_SERVERS ZK_HOME ZOOKEEPER_HOME CURATOR_HOME KAZOO_HOME

servers=(installed 3.9.3)
peers=("curator installed" "curator 5.7.1" "kazoo installed" "kazoo 2.9.0")

home() { # NAME VERSION: where it is, nothing for the installed one
	[ "$2" != installed ] || return 0
	scripts/unpack.sh "$1" "$2" "$dir/$1-$2" >&2
	echo "$dir/$1-$2"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# tests TITLE ARGUMENTS... runs tests, and says how many passed, failed and were left out.
tests() {
	local title=$1 result=passed
	shift
	echo "== $title" >&2
	"$go" test -count=1 -timeout 10m -v "$@" >"$log" 2>&1 || result=FAILED
	local pass fail skip
	pass=$(grep -c '^ *--- PASS' "$log" || true)
	fail=$(grep -c '^ *--- FAIL' "$log" || true)
	skip=$(grep -c '^ *--- SKIP' "$log" || true)
	[ "$pass" != 0 ] || result=FAILED # no test has the name
	if [ "$result" = FAILED ]; then
		failed=1
		grep -E '^ *--- FAIL|^FAIL|^panic|^ +[a-z_]+\.go:[0-9]+: ' "$log" | grep -v 'left out' >&2 || true
	fi
	cell="$result: $pass"
	[ "$fail" = 0 ] || cell+=", $fail failed"
	[ "$skip" = 0 ] || cell+=", $skip left out"
	echo "$cell" >&2
}

version_of() { # NAME VERSION: what an installed one is called
	if [ "$2" != installed ]; then
		echo "$2"
	else
		case $1 in
		zookeeper) package=libzookeeper-java ;;
		curator) package=libcurator-recipes-java ;;
		kazoo) package=python3-kazoo ;;
		esac
		dpkg-query -W -f '${Version}' "$package" 2>/dev/null | sed 's/[-+].*//' || echo installed
	fi
}

table=$(mktemp)
trap 'rm -f "$log" "$table"' EXIT
{
	echo '| | scenarios of all recipes | takeover | interop |'
	echo '|---|---|---|---|'
	for v in "${servers[@]}"; do
		ZK_HOME=$(home zookeeper "$v")
		[ -z "$ZK_HOME" ] && unset ZK_HOME || export ZK_HOME
		row="| ZooKeeper $(version_of zookeeper "$v") |"
		tests "ZooKeeper $v, scenarios" -run 'OnRealServers$' . ./rwlock ./reentrant ./semaphore ./leader ./once
		row+=" $cell |"
		tests "ZooKeeper $v, takeover" -run TestSoak/takeover/real ./internal/test/soak -args -kind takeover -for 1s
		row+=" $cell |"
		tests "ZooKeeper $v, interop" ./internal/test/interop
		echo "$row $cell |"
	done
	unset ZK_HOME
	for peer in "${peers[@]}"; do
		read -r name v <<<"$peer"
		at=$(home "$name" "$v")
		case $name in
		curator) title=Curator select=CURATOR_HOME run=Curator ;;
		kazoo) title=kazoo select=KAZOO_HOME run=Kazoo ;;
		esac
		[ -z "$at" ] && unset $select || export "$select=$at"
		tests "$title $v, interop" -run "$run" ./internal/test/interop
		unset $select
		echo "| $title $(version_of "$name" "$v") | not run | not run | $cell |"
	done
} >"$table"

awk -v table="$table" '
	/^<!-- scripts\/versions.sh -->$/ { print; print ""; while ((getline line < table) > 0) print line; print ""; skip = 1; next }
	/^<!-- end -->$/ { skip = 0 }
	!skip' "$page" >"$log"
grep -q '^<!-- scripts/versions.sh -->$' "$log" && grep -q '^<!-- end -->$' "$log" || { echo "versions.sh: $page has no place for the table" >&2; exit 1; }
cat "$log" >"$page"
cat "$table"
exit $failed
