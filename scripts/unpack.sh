#!/usr/bin/env bash
# unpack.sh NAME VERSION DIR unpacks what another Debian release has of ZooKeeper, Curator or kazoo into DIR, beside what
# is installed and without installing it. An environment variable selects it:
#
#	zookeeper 3.9.3            ZK_HOME=DIR
#	curator 5.7.1              CURATOR_HOME=DIR
#	kazoo 2.9.0                KAZOO_HOME=DIR
set -euo pipefail

[ $# = 3 ] || { echo "usage: unpack.sh zookeeper|curator|kazoo VERSION DIR" >&2; exit 2; }
name=$1 version=$2 dir=$3
case "$name $version" in
"zookeeper 3.9.3") release=trixie package=libzookeeper-java select=ZK_HOME ;;
"curator 5.7.1") release=trixie package=libcurator-recipes-java select=CURATOR_HOME ;;
"kazoo 2.9.0") release=trixie package=python3-kazoo select=KAZOO_HOME ;;
*)
	echo "unpack.sh: no Debian release is known that has $name $version." >&2
	exit 2
	;;
esac

if [ "$(cat "$dir/version" 2>/dev/null)" = "$name $version" ]; then
	echo "$name $version is in $dir: $select=$dir selects it."
	exit
fi
# Nothing of the user's is removed or mixed with it.
if [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; then
	echo "unpack.sh: $dir is not empty and not $name $version." >&2
	exit 1
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$dir/unpacking
mkdir -p "$work"/{state/lists/partial,cache/archives/partial,debs,root}
trap 'rm -rf "$work"' EXIT

# The packages are fetched with a configuration, lists and a cache of apt's own, so that the machine's apt knows nothing of
# the other release. The machine's mirror, proxy and keys are used.
found=
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
		list=$(APT_CONFIG=$work/apt.conf apt-cache madison "$package" 2>/dev/null) || continue
		if grep -q "| *$version[-+]" <<<"$list"; then
			found=1
			break
		fi
	done < <(apt-get indextargets --format '$(REPO_URI) $(COMPONENT)' 'Created-By: Packages' | awk '$2 == "main" { print $1 }' | sort -u)
fi
if [ -z "$found" ]; then
	cat >&2 <<-EOT
		No archive that apt is set up for has $name $version (Debian's release $release has). Another way to have it:
		$select=DIR, where DIR has its files: for ZooKeeper an unpacked apache-zookeeper-$version-bin.tar.gz or the
		same directory of a container image, for Curator its jars and theirs in lib, for kazoo the package kazoo.
	EOT
	[ ! -s "$work/log" ] || tail -n 3 "$work/log" >&2
	exit 1
fi

# Java libraries that the package depends on, or the Python module alone; not Java, and nothing compiled for one machine.
if [ "$name" = kazoo ]; then
	printf '%s\n' python3-kazoo python3-six >"$work/packages"
else
	APT_CONFIG=$work/apt.conf apt-get -s install "$package" | awk '$1 == "Inst" && $2 ~ /^lib.*-java$/ { print $2 }' >"$work/packages"
	# Only the command line needs it, and 3.9.3's package does not ask for it.
	grep -qx libjline-java "$work/packages" || echo libjline-java >>"$work/packages"
fi
(cd "$work/debs" && xargs env APT_CONFIG="$work/apt.conf" apt-get download -qq <"$work/packages")
for deb in "$work"/debs/*.deb; do
	dpkg-deb -x "$deb" "$work/root"
done

if [ "$name" = kazoo ]; then
	mv "$work/root/usr/lib/python3/dist-packages/"* "$dir/"
else
	# Each jar once, under the name that has no version in it. The names matter: the class path is sorted, and the manifest
	# of zookeeper.jar pulls in the jars of the installed version, by their absolute names. As zookeeper.jar comes last,
	# its own libraries are found first. With another version's zookeeper-jute.jar a server accepts connections and never
	# answers the handshake.
	mkdir -p "$work/lib"
	find "$work/root" -path '*/share/java/*.jar' >"$work/jars"
	while read -r jar; do
		case ${jar##*/} in
		*-[0-9]*.jar | zookeeper-[!j]*.jar) continue ;;
		curator-*.jar | zookeeper*.jar | commons-cli.jar | commons-io.jar | findbugs-annotations.jar | guava.jar | failureaccess.jar | \
			jackson-*.jar | jetty9-*.jar | jline*.jar | metrics-core.jar | netty*.jar | servlet-api.jar | slf4j-api.jar | snappy-java.jar)
			[ ! -e "$jar" ] || cp -L "$jar" "$work/lib/"
			;;
		esac
	done <"$work/jars"
	[ -e "$work/lib/zookeeper.jar" ] || { echo "unpack.sh: the package of $name $version has no zookeeper.jar." >&2; exit 1; }
	mv "$work/lib" "$dir/lib"
fi
# Last, so that an unpacking that was broken off is not taken for a whole one.
echo "$name $version" >"$dir/version"
echo "$name $version is in $dir: $select=$dir selects it."
