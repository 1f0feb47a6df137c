#!/bin/sh
# Signs the packages in a folder with a key of gpg's: each rpm itself, which dnf asks for, and
# each package in a file beside it (NAME.asc), which install.sh asks for. A package that the
# key has signed stays as it is.
#
#	packaging/sign.sh KEY [FOLDER]
#
# KEY names a secret key of gpg's, best by its fingerprint, which is printed.
set -eu
key=$1 folder=${2:-build/packages}

fail() {
	echo "sign.sh: $*" >&2
	exit 1
}

for program in gpg rpmsign; do
	command -v $program >/dev/null || fail "$program is not installed: apt-get install gnupg rpm"
done
keys=$(gpg --batch --with-colons --list-secret-keys -- "$key") || fail "gpg has no secret key \"$key\""
# A subkey may sign. gpg names the key that it belongs to, and hosts show that.
fingerprint=$(echo "$keys" | sed -n '/^sec:/,/^fpr:/s/^fpr:::::::::\([0-9A-F]*\):.*/\1/p')
[ "$(echo "$fingerprint" | wc -l)" = 1 ] || fail "gpg has several secret keys \"$key\": name one by its fingerprint"

signed() { # FILE: the key has signed it
	[ -e "$1.asc" ] && gpg --batch --quiet --status-fd 1 --verify "$1.asc" "$1" 2>/dev/null | grep -q "^\[GNUPG:\] VALIDSIG .* $fingerprint\$"
}

for file in "$folder"/*; do
	case $file in *.asc | *.sig) continue ;; esac
	[ -f "$file" ] || continue
	signed "$file" && continue
	rm -f "$file.asc"
	case $file in
	# It refuses an rpm that is damaged, and a key that rpm does not know. rpm of Debian 12 looks for gpg2, which Debian does not have.
	*.rpm) rpmsign --define "__gpg $(command -v gpg)" --define "_gpg_name $fingerprint" --addsign "$file" >/dev/null ;;
	esac
	gpg --batch --quiet --local-user "$fingerprint" --digest-algo SHA256 --armor --detach-sign --output "$file.asc" "$file"
done
echo "$fingerprint"
