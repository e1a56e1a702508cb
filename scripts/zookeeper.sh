#!/usr/bin/env bash
# Makes sure that the tests and the demo can start a ZooKeeper server. Does nothing when ZK_SERVERS names one that runs
# already, or when a server and Java are found in the places where internal/test/realzk looks for them. For another
# version beside the installed one: scripts/unpack.sh.
set -euo pipefail

[ -z "${ZK_SERVERS:-}" ] || exit 0

# has_server: with ZK_HOME set it means that one, so nothing is installed beside it.
has_server() {
	local home jar
	for home in "${ZK_HOME:-}" "${ZOOKEEPER_HOME:-}"; do
		[ -z "$home" ] || return 0
	done
	[ ! -e /usr/share/java/zookeeper.jar ] || return 0
	for home in /opt/zookeeper /usr/local/zookeeper /usr/share/zookeeper \
		/opt/homebrew/opt/zookeeper/libexec /usr/local/opt/zookeeper/libexec \
		/home/linuxbrew/.linuxbrew/opt/zookeeper/libexec; do
		for jar in "$home"/zookeeper-[0-9]*.jar "$home"/lib/zookeeper-[0-9]*.jar; do
			[ ! -e "$jar" ] || return 0
		done
	done
	return 1
}

has_java() {
	[ ! -x "${JAVA_HOME:-}/bin/java" ] || return 0
	command -v java >/dev/null || return 1
	# macOS has a /usr/bin/java without Java behind it, which says so only when it is run.
	[ "$(uname)" != Darwin ] || java -version >/dev/null 2>&1
}

! { has_server && has_java; } || exit 0

if command -v apt-get >/dev/null; then
	# libzookeeper-java is the server. The package zookeeper adds only scripts, and a desktop's worth of Java.
	packages=(libzookeeper-java default-jre-headless)
	sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || { echo "Install ${packages[*]} as root, or set ZK_SERVERS=host:port to a server that runs." >&2; exit 1; }
		sudo=sudo
	fi
	echo "Installing ${packages[*]} with apt-get."
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null
elif command -v brew >/dev/null; then
	echo "Installing zookeeper with brew."
	brew install zookeeper </dev/null
elif command -v docker >/dev/null && docker info >/dev/null 2>&1; then
	# Not started behind the user's back: it would go on running, and the export cannot be made from here.
	cat >&2 <<-'EOT'
		No ZooKeeper is installed. Docker can run one; these two commands, then make again:
		    docker run -d --name zklocks-zookeeper -p 127.0.0.1:2181:2181 zookeeper:3.8
		    export ZK_SERVERS=127.0.0.1:2181
		Tests that kill or pause servers start their own and still need ZooKeeper's jar and Java.
	EOT
	exit 1
else
	echo "Install Apache ZooKeeper 3.8 and Java, or set ZK_SERVERS=host:port to a server that runs." >&2
	exit 1
fi

has_server || { echo "ZooKeeper was installed, but not where it was expected: set ZK_HOME to its directory." >&2; exit 1; }
has_java || { echo "ZooKeeper was installed, but Java is not on PATH: set JAVA_HOME to a Java runtime." >&2; exit 1; }
