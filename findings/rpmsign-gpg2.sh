#!/bin/sh
# rpm 4.18 of Debian 12: rpmsign cannot sign where gpg is installed.
#
# rpmsign runs the program that the macro __gpg names, and Debian 12 builds rpm with /usr/bin/gpg2 (/usr/lib/rpm/macros). Debian's package
# gnupg has /usr/bin/gpg alone. gpg2 is in the transitional package gnupg2, on which rpm does not depend.
#
# So a script that signs has to name gpg itself: --define "__gpg /usr/bin/gpg".
# shellcheck disable=SC2016 # what the chroot's shell expands
set -eu

RPM=4.18 # of Debian 12

dir=$(mktemp -d)
# shellcheck disable=SC2317 # the trap calls it
clean() {
	chroot "$dir/root" gpgconf --kill all 2>/dev/null || :
	rm -rf --one-file-system "$dir"
}
trap clean EXIT
trap 'exit 2' HUP INT TERM
cannot() { echo "could not look: $*" >&2; exit 2; }

[ "$(id -u)" = 0 ] || cannot "run this as root: it uses a chroot"
echo "making a Debian 12 with rpm and gnupg in $dir"
mmdebstrap --quiet --variant=essential --include=rpm,gnupg bookworm "$dir/root" >&2 || cannot "mmdebstrap failed"
in_root() { chroot "$dir/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }
for p in rpm gnupg; do echo "$p $(in_root dpkg-query -W -f '${Version}' $p)"; done
case $(in_root dpkg-query -W -f '${Version}' rpm) in $RPM.*) ;; *) cannot "this is about rpm $RPM" ;; esac

in_root sh -eu -c '
	gpg --batch --quiet --passphrase "" --quick-generate-key example@localhost rsa3072 sign never
	printf "Name: example\nVersion: 1\nRelease: 1\nSummary: example\nLicense: none\nBuildArch: noarch\n%%description\nexample\n%%files\n" >/example.spec
	rpmbuild --quiet -bb --define "_topdir /rpmbuild" --define "_rpmdir /rpms" /example.spec
' >&2 || cannot "the key or the package could not be made"

# signs OPTION...: prints how rpmsign ends, and whether the package has a signature.
signs() {
	code=0
	in_root rpmsign --define '_gpg_name example@localhost' "$@" --addsign /rpms/noarch/example-1-1.noarch.rpm >"$dir/says" 2>&1 || code=$?
	grep 'exec' "$dir/says" || :
	echo "rpmsign ends with $code; signature: $(in_root rpm -qp --nosignature --queryformat '%|RSAHEADER?{yes}:{no}|' /rpms/noarch/example-1-1.noarch.rpm)"
}

echo "== rpmsign as it is"
seen=$(signs)
echo "$seen"
echo '== rpmsign --define "__gpg /usr/bin/gpg"'
with=$(signs --define '__gpg /usr/bin/gpg')
echo "$with"
[ "$seen
$with" = 'error: Could not exec gpg: No such file or directory
error: gpg exec failed (1)
rpmsign ends with 1; signature: no
rpmsign ends with 0; signature: yes' ] || { echo CHANGED; exit 1; }
