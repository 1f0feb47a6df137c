#!/bin/sh
# Publishes the packages in a folder as signed apt and yum repositories:
#
#	packaging/publish.sh --key KEY [--packages FOLDER] [--to LINK] [--url URL] [--valid-for TIME]
#
#	--key KEY          the secret key of gpg's that signs, best its fingerprint
#	--packages FOLDER  debs and rpms, all of which are published, and no others (build/packages)
#	--to LINK          the repository (build/repository)
#	--url URL          where hosts will find it: writes their configuration into it
#	--valid-for TIME   how long hosts accept it, such as "30 days" (for ever)
#
# LINK leads to a folder beside it. A run makes a new folder and switches LINK in the end: a
# reader of LINK sees the old repository or the whole new one, wherever a run is ended. The
# new folder also has the files of the publication before, for clients that have just read its
# indexes. Signing needs gpg, and publishing no network.
set -eu
umask 022
export LC_ALL=C
key='' packages=build/packages to=build/repository url='' valid=''
while [ $# -gt 1 ]; do
	case $1 in
	--key) key=$2 ;;
	--packages) packages=$2 ;;
	--to) to=${2%/} ;;
	--url) url=${2%/} ;;
	--valid-for) valid=$2 ;;
	*) break ;;
	esac
	shift 2
done

fail() {
	echo "publish.sh: $*; what was published stays as it was" >&2
	exit 1
}

if [ $# != 0 ] || [ -z "$key" ]; then
	fail "usage: publish.sh --key KEY [--packages FOLDER] [--to LINK] [--url URL] [--valid-for TIME]"
fi
for program in apt-ftparchive createrepo_c dpkg-deb gpg rpmsign; do
	command -v $program >/dev/null || fail "$program is not installed: apt-get install apt-utils createrepo-c gnupg rpm"
done
mkdir -p "$(dirname "$to")"
to=$(cd "$(dirname "$to")" && pwd -P)/${to##*/}
[ -L "$to" ] || [ ! -e "$to" ] || fail "$to is a folder, and not a link that publish.sh made: move it away"
exec 9>"$to.lock"
flock -n 9 || fail "another run publishes to $to"
now=$(readlink -f "$to")
# The trees of runs that were ended, and of the publication before the last.
for tree in "$to".tree-*; do
	[ "$tree" = "$now" ] || rm -rf "$tree"
done

key=$("$(dirname "$0")/sign.sh" "$key" "$packages") || fail "the packages are not signed"
new=$(mktemp -d "$to.tree-XXXXXX")
chmod 755 "$new"
trap 'rm -rf "$new"' EXIT
mkdir -p "$new/apt/pool" "$new/yum/x86_64" "$new/yum/aarch64"
gpg --batch --armor --export -- "$key" >"$new/teleport-update.asc"
sign() { gpg --batch --quiet --local-user "$key" --digest-algo SHA256 --armor "$@"; }

# Debs and rpms. A published version never changes: hosts may have it.
digest() { case $1 in *.rpm) rpm -qp --nosignature --queryformat '%{SHA256HEADER}' "$1" ;; *) sha256sum <"$1" ;; esac; }
for file in "$packages"/*.deb "$packages"/*.rpm; do
	[ -e "$file" ] || continue
	case $file in
	*.deb) place=apt/pool && dpkg-deb --fsys-tarfile "$file" >"$new/.content" ;;
	*) place=yum/$(rpm -qp --nosignature --queryformat '%{ARCH}' "$file") ;;
	esac || fail "$file is damaged"
	place=$place/${file##*/}
	if [ -e "$now/$place" ] && [ "$(digest "$file")" != "$(digest "$now/$place")" ]; then
		fail "$file was published with another content: build it with a higher version"
	fi
	# An rpm that was built and signed once more has other bytes, of the time of its signature. Clients that know the old index would refuse them.
	if cmp -s "$file" "$now/$place" || { [ -e "$now/$place" ] && cmp -s "$new/teleport-update.asc" "$now/teleport-update.asc"; }; then
		ln "$now/$place" "$new/$place"
	else
		cp "$file" "$new/$place"
	fi
	echo "$place$([ -e "$now/$place" ] || echo ' (new)')"
done
rm -f "$new/.content"
[ -n "$(find "$new" -name '*.deb' -o -name '*.rpm')" ] || fail "there are no debs and no rpms in $packages: run make packages"

# apt: indexes by hash, since a client may read Release before the link is switched and the rest after.
until=''
lifetime=0
if [ -n "$valid" ]; then
	until=$(date -u -d "now + $valid" '+%a, %d %b %Y %H:%M:%S UTC') || fail "\"$valid\" is not a time such as \"30 days\""
	lifetime=seconds=$(($(date -d "now + $valid" +%s) - $(date +%s)))
fi
archive() { (cd "$new/apt" && apt-ftparchive -o APT::FTPArchive::MD5=false -o APT::FTPArchive::SHA1=false -o APT::FTPArchive::SHA512=false "$@"); }
suite=$new/apt/dists/stable
for arch in amd64 arm64; do
	index=$suite/main/binary-$arch
	mkdir -p "$index/by-hash/SHA256"
	archive --arch $arch packages pool >"$index/Packages" || fail "the debs cannot be indexed"
	gzip -9n <"$index/Packages" >"$index/Packages.gz"
	for file in "$index/Packages" "$index/Packages.gz"; do
		ln "$file" "$index/by-hash/SHA256/$(sha256sum <"$file" | cut -d' ' -f1)"
	done
done
set -- -o APT::FTPArchive::Release::Acquire-By-Hash=yes -o APT::FTPArchive::Release::Architectures="amd64 arm64" \
	-o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Description="the updater of Teleport agents"
for field in Origin=teleport-update Label=teleport-update Suite=stable Codename=stable ${until:+ValidTime=1}; do
	set -- "$@" -o "APT::FTPArchive::Release::$field"
done
archive "$@" ${until:+-o "APT::FTPArchive::Release::Valid-Until=$until"} release dists/stable >"$new/.release" || fail "apt's part cannot be indexed"
mv "$new/.release" "$suite/Release"
sign --detach-sign --output "$suite/Release.gpg" "$suite/Release"
sign --clear-sign --output "$suite/InRelease" "$suite/Release"

# yum: dnf knows no repository that expires, but a signature that does.
for folder in "$new"/yum/*; do
	createrepo_c --quiet --error-exit-val --no-database --general-compress-type=gz --checksum=sha256 "$folder" || fail "the rpms cannot be indexed"
	sign --default-sig-expire "$lifetime" --detach-sign "$folder/repodata/repomd.xml"
done
if [ -n "$url" ]; then
	cat >"$new/teleport-update.sources" <<-END
		Types: deb
		URIs: $url/apt
		Suites: stable
		Components: main
		Signed-By: /etc/apt/keyrings/teleport-update.asc
	END
	cat >"$new/teleport-update.repo" <<-END
		[teleport-update]
		name=teleport-update
		baseurl=$url/yum/\$basearch
		enabled=1
		gpgcheck=1
		repo_gpgcheck=1
		gpgkey=file:///etc/pki/rpm-gpg/teleport-update.asc
	END
else
	for file in teleport-update.sources teleport-update.repo; do
		[ ! -e "$now/$file" ] || ln "$now/$file" "$new/$file"
	done
fi

own=$(cd "$new" && find . -type f)
echo "$own" >"$new/.published"
if [ -e "$now/.published" ]; then
	[ -n "$(find "$suite/InRelease" -newer "$now/apt/dists/stable/InRelease")" ] || fail "$to is of a later time than now: set the clock"
	while read -r file; do
		mkdir -p "$new/$(dirname "$file")"
		[ -e "$new/$file" ] || ln "$now/$file" "$new/$file"
	done <"$now/.published"
fi
sync -f "$new"
ln -sfn "${new##*/}" "$to.next"
trap - EXIT
mv -T "$to.next" "$to"
sync -f "$(dirname "$to")"
echo "published in $to${until:+; hosts refuse it from $until on: publish it again before}"
# dnf shows a person the fingerprint of the subkey that signs, apt's guide the key's.
gpg --batch --fingerprint --with-subkey-fingerprint -- "$key"
