#!/usr/bin/env bash
# Runs make quick as on a machine where Go is installed and neither Java nor a C compiler: all must pass there, and it must say what
# was left out. PATH leads to links to every program but those.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
mkdir "$programs/bin"
IFS=: read -ra dirs <<<"$PATH"
for dir in "${dirs[@]}"; do
	for program in "$dir"/*; do
		name=${program##*/}
		case $name in
		java | javac | cc | gcc | g++ | c++ | clang | clang++ | *-gcc | gcc-* | clang-*) continue ;;
		esac
		# The first one on PATH counts.
		[ ! -x "$program" ] || [ -e "$programs/bin/$name" ] || ln -s "$program" "$programs/bin/$name"
	done
done
unset JAVA_HOME ZK_HOME ZOOKEEPER_HOME ZK_SERVERS ZKLOCKS_REAL CC
export PATH=$programs/bin
for program in java gcc cc; do
	! command -v "$program" >/dev/null || { echo "without-java.sh: $program is still on PATH" >&2; exit 1; }
done
make quick | tee "$programs/output"
# Where a real server is found after all, nothing was shown.
grep -q 'tests were left out, because they need a real ZooKeeper' "$programs/output" || { echo "without-java.sh: no test was left out" >&2; exit 1; }
