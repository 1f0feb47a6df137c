#!/bin/sh
# dpkg 1.21 and rpm 4.18: what happens to a configuration file that an administrator replaced by a link, when its package goes.
#
# dpkg --purge follows the link and removes the file behind it. The link stays and leads nowhere (dpkg's conffderef() in
# src/main/configure.c, which removal_bulk_remove_configfiles() in src/main/remove.c calls).
# rpm --erase compares the link with the regular file that it installed, takes it for modified, and renames the link to NAME.rpmsave.
# The file behind it stays.
#
# So a package cannot be removed under a running service whose configuration is a link: links and files have to be saved before.
# shellcheck disable=SC2016 # what the chroot's shell expands
set -eu

DPKG=1.21 RPM=4.18 # of Debian 12; point releases of Debian keep both

dir=$(mktemp -d)
trap 'rm -rf --one-file-system "$dir"' EXIT
trap 'exit 2' HUP INT TERM
cannot() { echo "could not look: $*" >&2; exit 2; }

[ "$(id -u)" = 0 ] || cannot "run this as root: it uses a chroot"
echo "making a Debian 12 in $dir"
mmdebstrap --quiet --variant=essential --include=rpm bookworm "$dir/root" >&2 || cannot "mmdebstrap failed"
in_root() { chroot "$dir/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }
for p in dpkg rpm; do
	v=$(in_root dpkg-query -W -f '${Version}' $p)
	echo "$p $v"
	case $p-$v in dpkg-$DPKG.* | rpm-$RPM.*) ;; *) cannot "this is about dpkg $DPKG and rpm $RPM" ;; esac
done

# One package with one configuration file, for both.
in_root sh -eu -c '
	mkdir -p /deb/DEBIAN /deb/etc /payload/etc /srv
	echo "from the package" | tee /deb/etc/example.conf >/payload/etc/example.conf
	echo /etc/example.conf >/deb/DEBIAN/conffiles
	printf "Package: example\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\nDescription: example\n" >/deb/DEBIAN/control
	dpkg-deb --root-owner-group --build /deb /example.deb
	printf "Name: example\nVersion: 1\nRelease: 1\nSummary: example\nLicense: none\nBuildArch: noarch\n%%description\nexample\n" >/example.spec
	printf "%%install\ncp -a /payload/. %%{buildroot}/\n%%files\n%%config(noreplace) /etc/example.conf\n" >>/example.spec
	rpmbuild --quiet -bb --define "_topdir /rpmbuild" --define "_rpmdir /rpms" /example.spec
' >&2 || cannot "the packages could not be built"

# sees TOOL INSTALL REMOVE WANT: installs, replaces the file by a link, removes the package, and compares.
sees() {
	echo "== $1: the package is installed, /etc/example.conf becomes a link to /srv/example.conf, the package is removed by \`$3\`"
	in_root sh -eu -c "$2" >&2 || cannot "$1 did not install the package"
	in_root sh -eu -c 'mv /etc/example.conf /srv/example.conf && ln -s /srv/example.conf /etc/example.conf'
	in_root sh -eu -c "$3" >&2 || cannot "$1 did not remove the package"
	seen=$(in_root sh -c 'for f in /etc/example.conf* /srv/example.conf*; do
		if [ -L "$f" ]; then echo "$f: a link to $(readlink "$f")"; elif [ -e "$f" ]; then echo "$f: a file"; fi
	done')
	echo "$seen"
	in_root sh -c 'rm -f /etc/example.conf* /srv/example.conf*'
	[ "$seen" = "$4" ] || { printf 'CHANGED; it was\n%s\n' "$4"; changed=1; }
}

changed=0
sees dpkg 'dpkg --install /example.deb' 'dpkg --purge example' '/etc/example.conf: a link to /srv/example.conf'
sees rpm 'rpm --install --nodeps /rpms/noarch/example-1-1.noarch.rpm' 'rpm --erase example' '/etc/example.conf.rpmsave: a link to /srv/example.conf
/srv/example.conf: a file'
exit $changed
