#!/usr/bin/env bash
# Makes sure that the tests and the demo can start a ZooKeeper server. Does nothing when ZK_SERVERS names one that runs
# already, or when a server and Java are found in the places where internal/test/realzk looks for them.
#
# zookeeper.sh VERSION DIR (3.9.3 or 3.4.13) unpacks that version into DIR, beside the installed one and without
# installing it: ZK_HOME=DIR selects it.
set -euo pipefail

# Debian's releases, by the version of ZooKeeper in them.
release_of() {
	case $1 in
	3.9.3) echo trixie ;;
	3.4.13) echo bullseye ;;
	*) return 1 ;;
	esac
}

# unpack VERSION DIR fetches the packages with a configuration, lists and a cache of apt's own under DIR, so that the
# machine's apt knows nothing of the other release. The machine's mirror, proxy and keys are used.
unpack() {
	local version=$1 dir=$2 release work uri list package jar
	release=$(release_of "$version") || { echo "zookeeper.sh: no Debian release is known that has ZooKeeper $version: 3.9.3 and 3.4.13 are." >&2; return 2; }
	if [ "$(cat "$dir/version" 2>/dev/null)" = "$version" ]; then
		echo "ZooKeeper $version is in $dir: ZK_HOME=$dir selects it."
		return
	fi
	# Nothing of the user's is removed or mixed with jars.
	if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then
		echo "zookeeper.sh: $dir is not empty and not ZooKeeper $version." >&2
		return 1
	fi
	mkdir -p "$dir"
	dir=$(cd "$dir" && pwd)
	work=$dir/unpacking
	mkdir -p "$work"/{state/lists/partial,cache/archives/partial,debs,root}
	# Expanded now: the function's variables are gone when the trap runs.
	trap "$(printf 'rm -rf %q' "$work")" EXIT

	local found=
	if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
		: >"$work/status"
		# How to fetch (proxy, timeouts) is the machine's affair. Its hooks are left out: they would act on its own lists.
		{
			apt-config dump | grep '^Acquire::' || true
			cat <<-EOT
				Dir::Etc::main "/dev/null";
				Dir::Etc::parts "/dev/null";
				Dir::Etc::sourcelist "$work/sources.list";
				Dir::Etc::sourceparts "/dev/null";
				Dir::Etc::preferences "/dev/null";
				Dir::Etc::preferencesparts "/dev/null";
				Dir::State "$work/state";
				Dir::State::status "$work/status";
				Dir::Cache "$work/cache";
				APT::Install-Recommends "false";
				APT::Sandbox::User "root";
			EOT
		} >"$work/apt.conf"
		# A machine may have several archives: the one that has the release and the version in it is taken.
		while read -r uri; do
			echo "deb $uri $release main" >"$work/sources.list"
			APT_CONFIG=$work/apt.conf apt-get update -qq >"$work/log" 2>&1 || continue
			list=$(APT_CONFIG=$work/apt.conf apt-cache madison libzookeeper-java 2>/dev/null) || continue
			if grep -q "| $version-" <<<"$list"; then
				found=1
				break
			fi
		done < <(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' | awk '$2 == "main" { print $1 }' | sort -u)
	fi
	if [ -z "$found" ]; then
		cat >&2 <<-EOT
			No archive that apt is set up for has ZooKeeper $version (Debian's release $release has). Other ways to have it:
			    ZK_HOME=DIR, where DIR is an unpacked apache-zookeeper-$version-bin.tar.gz of the Apache project
			    docker create --name zk zookeeper:$version && docker cp zk:/apache-zookeeper-$version-bin DIR && docker rm zk, then ZK_HOME=DIR
		EOT
		[ ! -s "$work/log" ] || tail -n 3 "$work/log" >&2
		return 1
	fi

	# The server and all libraries it depends on; not Java, and nothing compiled for one machine.
	APT_CONFIG=$work/apt.conf apt-get -s install libzookeeper-java |
		awk '$1 == "Inst" && $2 ~ /^lib.*-java$/ { print $2 }' >"$work/packages"
	# Only the command line needs it, and 3.9.3's package does not ask for it.
	grep -qx libjline-java "$work/packages" || echo libjline-java >>"$work/packages"
	(cd "$work/debs" && xargs env APT_CONFIG="$work/apt.conf" apt-get download -qq <"$work/packages")
	for package in "$work"/debs/*.deb; do
		dpkg-deb -x "$package" "$work/root"
	done

	# Each jar once, under the name that has no version in it. The names matter: the class path is sorted, and the manifest
	# of zookeeper.jar pulls in the jars of the installed version, by their absolute names. As zookeeper.jar comes last,
	# its own libraries are found first. With another version's zookeeper-jute.jar a server accepts connections and never
	# answers the handshake.
	mkdir -p "$work/lib"
	find "$work/root" -path '*/share/java/*.jar' >"$work/jars"
	while read -r jar; do
		case ${jar##*/} in
		*-[0-9]*.jar | zookeeper-[!j]*.jar) continue ;;
		zookeeper*.jar | commons-cli.jar | commons-io.jar | findbugs-annotations.jar | guava.jar | jackson-*.jar | \
			jetty9-*.jar | jline*.jar | metrics-core.jar | netty*.jar | servlet-api.jar | slf4j-api.jar | snappy-java.jar)
			[ ! -e "$jar" ] || cp -L "$jar" "$work/lib/"
			;;
		esac
	done <"$work/jars"
	[ -e "$work/lib/zookeeper.jar" ] || { echo "zookeeper.sh: the package of ZooKeeper $version has no zookeeper.jar." >&2; return 1; }
	mv "$work/lib" "$dir/lib"
	# Last, so that an unpacking that was broken off is not taken for a whole one.
	echo "$version" >"$dir/version"
	echo "ZooKeeper $version is in $dir: ZK_HOME=$dir selects it."
}

case $# in
0) ;;
2)
	unpack "$1" "$2"
	exit
	;;
*)
	echo "usage: zookeeper.sh [VERSION DIR]" >&2
	exit 2
	;;
esac

[ -z "${ZK_SERVERS:-}" ] || exit 0

# has_server: whoever sets ZK_HOME means that one, so nothing is installed beside it.
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
