#!/bin/sh
# Installs teleport-update on this host and enables it:
#
#   curl -fsS https://SERVER/scripts/install.sh | sh
#   curl -fsS https://SERVER/scripts/install.sh | sh -s -- --group staging
#   curl -fsS --cacert /etc/ssl/ca.pem https://SERVER/scripts/install.sh | sh -s -- --ca-file /etc/ssl/ca.pem
#
# Arguments after "--" go to "teleport-update enable", except --package-key FILE, see
# below, and --server URL, which names the server of the packages if the script did not
# come from a server, or if that is a server of this host itself. If the updater is installed already, as in a baked image, nothing
# is downloaded, and "enable" runs all the same: if nothing is wrong, it changes nothing.
#
# The package is the server's newest for this host: a .deb under apt, an .rpm
# under dnf, yum and zypper, and elsewhere, as on bootc, the program alone. It must match the
# checksum that the server announces. With --package-key FILE, or
# TELEPORT_UPDATE_PACKAGE_KEY, it must also be signed, whatever the server says: by
# an OpenPGP key (PACKAGE.asc) or an ECDSA key in PEM (PACKAGE.sig, as cosign and
# "openssl dgst" make it).
#
# Nothing runs before all of the script has arrived: the last line is its only call.
set -eu

say() { printf 'install.sh: %s\n' "$*" >&2; }

fail() {
	say "$@"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# trusted FILE: nobody but root can change or exchange FILE, by owner and mode of each
# folder on the way to it and of each link that the way leads through.
trusted() (
	PATH=$PATH:/usr/bin:/bin
	[ "$(id -u)" = 0 ] || exit 0 # others run everything as themselves
	case $1 in /*) rest=$1 at='' links=0 ;; *) exit 1 ;; esac
	set -f
	while :; do
		# shellcheck disable=SC2046,SC2012 # "mode links owner group …", everywhere alike
		set -- $(ls -ldn -- "${at:-/}" 2>/dev/null)
		[ "${3-}" = 0 ] || exit 1
		shared=no
		case $1 in
		l*)
			links=$((links + 1))
			[ "$links" -le 40 ] || exit 1
			target=$(readlink -- "$at") || exit 1
			case $target in /*) at='' ;; *) at=${at%/*} ;; esac
			rest=$target/$rest
			;;
		d???????w[tT]*) shared=yes ;; # there nobody can exchange what is root's
		????????w*) exit 1 ;;
		?????w*+*) exit 1 ;; # an ACL names who may write
		?????w*) [ "$4" = 0 ] || exit 1 ;;
		esac
		while [ "$rest" != "${rest#/}" ]; do rest=${rest#/}; done
		[ -n "$rest" ] || break
		name=${rest%%/*} rest=${rest#"${rest%%/*}"}
		case $name in
		.) ;;
		..) at=${at%/*} ;;
		*) at=$at/$name ;;
		esac
	done
	[ "$shared" = no ]
)

others='it belongs to another user, or others may write it, a folder above it or a link to it'

# installed prints the updater that is on this host. Others of that name, as
# Teleport's own releases have one, are in other places.
installed() {
	for program in /usr/bin/teleport-update /usr/local/sbin/teleport-update /var/lib/teleport/updater/teleport-update; do
		if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
		if trusted "$program"; then
			printf '%s\n' "$program"
			return
		fi
		say "$program is not run as root: $others"
	done
	return 1
}

# over_tls URL: the server is asked over https, or on this host.
over_tls() {
	case $1 in
	[Hh][Tt][Tt][Pp][Ss]://*) return 0 ;;
	[Hh][Tt][Tt][Pp]://*) ;;
	*) return 1 ;;
	esac
	host=${1#*://}
	host=${host%%[/?#]*}
	case $host in
	\[::1\] | \[::1\]:*) host=${host#\[::1\]} name=localhost ;;
	*:*) name=${host%%:*} host=:${host#*:} ;;
	*) name=$host host='' ;;
	esac
	case $host in '') ;; :*[!0-9]* | [!:]*) return 1 ;; esac # a port
	case $name in
	localhost) ;;
	127.*[!0-9.]* | 127.*.*.*.* | 127.*..* | 127.*.) return 1 ;;
	127.*.*.*) ;;
	*) return 1 ;;
	esac
}

# here URL: the address is this host's own. Any local user may listen there.
here() {
	host=${1#*://}
	case $host in
	[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt] | [Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]:*) ;;
	127.* | 0.0.0.0 | 0.0.0.0:* | '[::1]'* | '[::]'* | '[::ffff:'*) ;;
	*) return 1 ;;
	esac
}

# fetch URL FILE
fetch() {
	if have curl; then
		curl --fail --silent --show-error --location --proto-redir =https --retry 3 --connect-timeout 10 \
			${ca_file:+--cacert "$ca_file"} --output "$2" "$1"
	elif wget --version 2>/dev/null | grep -q 'GNU Wget'; then # others do not verify certificates
		wget -q --max-redirect=0 ${ca_file:+--ca-certificate="$ca_file"} -O "$2" "$1"
	else
		fail "neither curl nor GNU wget is installed: nothing can be downloaded"
	fi
}

# pick KIND prints the newest package of a kind, as "SHA256 NAME"; the server
# lists the newest last.
pick() {
	found=''
	while read -r sum name; do
		case $1:$name in
		*/*) ;;
		deb:teleport-update_*_"$arch".deb | rpm:teleport-update-*."$machine".rpm | program:teleport-update-*-linux-"$arch") found="$sum $name" ;;
		esac
	done <"$dir/SHA256SUMS"
	[ -n "$found" ] && printf '%s\n' "$found"
}

# architecture sets machine to rpm's name of the architecture, and arch to everybody else's.
architecture() {
	machine=$(uname -m)
	case $machine in
	x86_64 | amd64) machine=x86_64 arch=amd64 ;;
	aarch64 | arm64) machine=aarch64 arch=arm64 ;;
	*) fail "there are no packages for $machine machines" ;;
	esac
	# The kernel may be of another kind than the programs on the host.
	if have dpkg && [ "$(dpkg --print-architecture)" != "$arch" ]; then
		fail "this host runs programs for $(dpkg --print-architecture), and there are packages for $arch only"
	fi
}

# binary FILE prints an OpenPGP key without its armor.
binary() {
	if grep -q '^-----BEGIN PGP' "$1"; then
		sed -n '/^[[:space:]]*$/,/^=/p' "$1" | grep -v '^=' | base64 -d
	else
		cat "$1"
	fi
}

# signed FILE: the key has signed it.
signed() {
	if grep -q '^-----BEGIN PUBLIC KEY' "$package_key"; then
		base64 -d "$1.sig" >"$dir/signature" 2>/dev/null &&
			openssl dgst -sha256 -verify "$package_key" -signature "$dir/signature" "$1" >/dev/null 2>&1
		return
	fi
	binary "$package_key" >"$dir/key.gpg" || return 1
	case $verifier in
	gpgv) gpgv --homedir "$dir" --keyring "$dir/key.gpg" "$1.asc" "$1" >/dev/null 2>&1 ;;
	gpg) gpg --homedir "$dir" --batch --no-default-keyring --keyring "$dir/key.gpg" --verify "$1.asc" "$1" >/dev/null 2>&1 ;;
	sqv) sqv --keyring "$dir/key.gpg" "$1.asc" "$1" >/dev/null 2>&1 ;;
	esac
}

# check_signature NAME verifies with the key that a person named, or warns if there is none.
check_signature() {
	if [ -z "$package_key" ]; then
		say "the signature of $1 was not verified, for no --package-key names a key: its checksum is the server's own word"
		return
	fi
	verifier='' suffix=asc
	if grep -q '^-----BEGIN PUBLIC KEY' "$package_key"; then
		suffix=sig
		have openssl && verifier=openssl
	else
		for program in gpgv gpg sqv; do
			if [ -z "$verifier" ] && have "$program"; then verifier=$program; fi
		done
	fi
	[ -n "$verifier" ] ||
		fail "the signature of $1 cannot be verified: neither gpgv nor gpg, sqv or openssl is here for a key of this kind; nothing was installed: install one, or leave out --package-key"
	fetch "$server/packages/$1.$suffix" "$dir/$1.$suffix" ||
		fail "$server has no signature $1.$suffix: it was not signed or not copied there, or somebody keeps it back; nothing was installed"
	signed "$dir/$1" ||
		fail "$1 is not signed by the key in $package_key: it is signed by another key or damaged, or somebody has exchanged it; nothing was installed"
	say "$1 is signed by the key in $package_key"
}

download_and_install() {
	[ -n "$server" ] || fail "no server is named: name it with --server URL"
	if [ -n "$ca_file" ]; then
		case $ca_file in /*) ;; *) ca_file=$(pwd -P)/$ca_file ;; esac
		trusted "$ca_file" || fail "$ca_file cannot say whom to trust: it is not there, or $others; nothing was installed"
	fi
	if [ -n "$package_key" ]; then
		case $package_key in /*) ;; *) package_key=$(pwd -P)/$package_key ;; esac
		trusted "$package_key" || fail "$package_key cannot say who signs: it is not there, or $others; nothing was installed"
	fi
	architecture
	if have apt-get && have dpkg; then
		manager=apt-get kind=deb
	elif have dnf; then
		manager=dnf kind=rpm
	elif have yum; then
		manager=yum kind=rpm
	elif have zypper; then
		manager=zypper kind=rpm
	else
		manager='' kind=program
	fi
	# bootc, rpm-ostree and transactional systems: their package managers refuse by design. apt has hooks that make /usr writable.
	if [ "$kind" = rpm ] && { [ -e /run/ostree-booted ] || ! [ -w /usr ]; }; then
		say "the system in /usr is an image that $manager does not change: the program alone is installed"
		manager='' kind=program
	fi
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	chmod 755 "$dir" # apt reads packages as another user

	fetch "$server/packages/SHA256SUMS" "$dir/SHA256SUMS" ||
		fail "the list of packages cannot be read from $server; nothing was installed"
	if ! package=$(pick "$kind"); then
		manager=''
		package=$(pick program) || fail "$server has no package for $arch; nothing was installed"
	fi
	sum=${package%% *}
	name=${package#* }
	fetch "$server/packages/$name" "$dir/$name" || fail "$name cannot be downloaded from $server; nothing was installed"
	got=$(sha256sum "$dir/$name")
	if [ "${got%% *}" != "$sum" ]; then
		fail "$name does not match its checksum: it was damaged or replaced on the way; nothing was installed"
	fi
	check_signature "$name"

	# The script itself may be on the standard input.
	case $manager in
	apt-get) DEBIAN_FRONTEND=noninteractive apt-get install --yes -o DPkg::Lock::Timeout=300 "$dir/$name" </dev/null >&2 ;;
	# The checksum of the package was verified; the key of its signature is on no host yet.
	dnf | yum) "$manager" install --assumeyes --setopt=localpkg_gpgcheck=0 "$dir/$name" </dev/null >&2 ;;
	zypper) zypper --non-interactive --no-gpg-checks install "$dir/$name" </dev/null >&2 ;;
	*)
		mkdir -p /usr/local/sbin || fail "/usr/local/sbin cannot be made; nothing was installed"
		trusted /usr/local/sbin || fail "nothing is installed into /usr/local/sbin: $others"
		new=/usr/local/sbin/.teleport-update.new
		{ cp "$dir/$name" "$new" && chmod 755 "$new" && sync && mv -f "$new" /usr/local/sbin/teleport-update; } || {
			rm -f "$new"
			false
		}
		;;
	esac || fail "$name cannot be installed; nothing was enabled"
	rm -rf "$dir"
}

main() {
	# The server that serves this script puts its own address here, and whether it
	# has releases.
	server=''
	releases=no

	ca_file=${TELEPORT_UPDATE_CA_FILE-} proxy=${TELEPORT_UPDATE_PROXY-} template=${TELEPORT_UPDATE_TEMPLATE-}
	package_key=${TELEPORT_UPDATE_PACKAGE_KEY-}
	before='' conflict=no named=no
	count=$#
	while [ "$count" -gt 0 ]; do
		argument=$1
		shift
		count=$((count - 1))
		case $before in
		--ca-file | -ca-file) ca_file=$argument ;;
		--proxy | -proxy) proxy=$argument ;;
		--template | -template) template=$argument ;;
		--server)
			server=$argument before='' named=yes
			continue
			;;
		--package-key)
			package_key=$argument before=''
			continue
			;;
		esac
		case $argument in
		--ca-file=* | -ca-file=*) ca_file=${argument#*=} ;;
		--proxy=* | -proxy=*) proxy=${argument#*=} ;;
		--template=* | -template=*) template=${argument#*=} ;;
		--server=*)
			server=${argument#*=} named=yes
			continue
			;;
		--package-key=*)
			package_key=${argument#*=}
			continue
			;;
		esac
		before=$argument
		case $argument in --server | --package-key) ;; *) set -- "$@" "$argument" ;; esac
	done
	server=${server%/}
	[ -z "$server" ] || over_tls "$server" ||
		fail "--server $server: want https://HOST[:PORT]; plain http could be anybody's answer, and is for this host's own addresses only"
	if [ "$named" = no ] && here "$server"; then
		fail "this script names $server, which is this host itself, where anybody may listen; nothing was installed: start the server with --public-url, or name a server of this host with --server URL"
	fi
	# Whoever runs the script has chosen the server, which need not be the agent's proxy. An
	# updater of before knows no such conflict.
	if [ -z "$proxy" ] && [ -n "$server" ]; then
		conflict=yes
		set -- --proxy "$server" "$@"
	fi
	if [ -z "$template" ] && [ "$releases" = yes ]; then
		set -- --template "$server/releases/"'teleport{{if .Enterprise}}-ent{{end}}-v{{.Version}}-{{.OS}}-{{.Arch}}{{if .FIPS}}-fips{{end}}-bin.tar.gz' "$@"
	fi

	[ "$(uname -s)" = Linux ] || fail "this is not Linux"
	[ "$(id -u)" = 0 ] || fail "this needs root: put sudo before sh"
	umask 022
	if updater=$(installed); then
		say "teleport-update is installed already, as $updater"
	else
		download_and_install
		updater=$(installed) || fail "the package was installed, but no teleport-update is found that root may run"
		say "teleport-update is installed, as $updater"
	fi
	if [ "$conflict" = yes ] && "$updater" enable --help 2>/dev/null | grep -q -e '--allow-proxy-conflict'; then
		set -- --allow-proxy-conflict "$@"
	fi
	"$updater" enable "$@" </dev/null
}

{ main "$@"; exit; }
