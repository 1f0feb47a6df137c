#!/bin/sh
# Brings the Teleport agent of one host to the version that the cluster wants, for
# hosts that are updated by tools of your own and do not have teleport-update
# (RFD 0169, Manual Workflow).
#
#   update-agent.sh PROXY [GROUP]
#
# Run it as root, as often as you like: if there is nothing to do, it does
# nothing. If a version does not stay up for WATCH seconds (30), the old one is put back.
# It does less than teleport-update: it makes no backup of the agent's database, does not
# remember a failed version, and does not repair a host after a power cut.
#
# Environment: MIRROR, where the releases are (https://cdn.teleport.dev), and WATCH.
set -eu

say() { printf 'update-agent.sh: %s\n' "$*"; }

fail() {
	say "$@" >&2
	exit 1
}

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

# field NAME prints a text field of the answer.
field() { printf '%s' "$answer" | sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"; }

# runs VERSION says whether the agent's main process is of that version.
runs() {
	systemctl is-active --quiet teleport || return 1
	pid=$(systemctl show --property MainPID --value teleport)
	[ "$(readlink "/proc/$pid/exe")" = "$store/$1/teleport" ]
}

others='belongs to another user, or others may write it, a folder above it or a link to it'

# is_version TEXT says whether the text is a version, and nothing that leads elsewhere.
is_version() {
	case $1 in *[!0-9A-Za-z.+-]*) return 1 ;; esac
	identifiers='[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*'
	printf '%s\n' "$1" | grep -Eq "^[0-9]+\.[0-9]+\.[0-9]+(-$identifiers)?(\+$identifiers)?\$"
}

# whole VERSION says whether the version is in the store. Its files must be root's alone,
# for root runs them.
whole() {
	[ -e "$store/$1" ] || return 1
	for name in . teleport tsh tctl tbot examples/systemd/teleport.service; do
		[ ! -e "$store/$1/$name" ] || trusted "$store/$1/$name" ||
			fail "$store/$1/$name $others: remove $store/$1; nothing was changed"
	done
	for name in teleport examples/systemd/teleport.service; do
		[ -f "$store/$1/$name" ] || fail "$store/$1 has no $name: remove it; nothing was changed"
	done
}

# link VERSION puts a version into place, each link in one step.
link() {
	for name in tsh tctl tbot teleport; do
		[ -e "$store/$1/$name" ] || continue
		ln -sfn "$store/$1/$name" "/usr/local/bin/.$name.new"
		mv -fT "/usr/local/bin/.$name.new" "/usr/local/bin/$name"
	done
	cp "$store/$1/examples/systemd/teleport.service" "$units/.teleport.service.new"
	chmod 644 "$units/.teleport.service.new"
	mv -fT "$units/.teleport.service.new" "$units/teleport.service"
	systemctl daemon-reload
}

# identity prints the id by which the cluster knows this host. Another user may have
# written the file, or put a link there: nothing but a UUID leaves the host.
identity() {
	[ -f /var/lib/teleport/host_uuid ] || return 0
	timeout 5 head -c 40 /var/lib/teleport/host_uuid 2>/dev/null |
		grep -Ex '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}' | head -n 1
}

main() {
	[ $# -ge 1 ] || fail "usage: update-agent.sh PROXY [GROUP]"
	proxy=$1 group=${2-}
	store=/opt/teleport-agent
	mirror=${MIRROR:-https://cdn.teleport.dev}
	watch=${WATCH:-30}
	units=/usr/local/lib/systemd/system
	umask 022
	mkdir -p "$store" "$units" /usr/local/bin
	for dir in "$store" "$units" /usr/local/bin; do
		trusted "$dir" || fail "$dir $others: nothing was changed"
	done

	uuid=$(identity)
	answer=''
	for path in /v1/webapi/find /webapi/find; do
		answer=$(curl -fsS --get --data-urlencode "host=$uuid" --data-urlencode "group=$group" "https://$proxy$path") && break
	done
	version=$(field agent_version)
	[ -n "$version" ] || fail "$proxy names no version"
	is_version "${version#v}" || fail "$proxy names a version that cannot be read: nothing was changed"
	version=${version#v}
	now=$(readlink /usr/local/bin/teleport 2>/dev/null || true)
	now=${now#"$store"/}
	now=${now%/teleport}
	there=no
	if whole "$version"; then there=yes; fi
	if [ "$now" = "$version" ]; then
		say "this host is on $version already"
		return
	fi
	if [ -n "$now" ] && ! printf '%s' "$answer" | grep -Eq '"agent_auto_?update" *: *true'; then
		say "$version is wanted, but not now"
		return
	fi

	case $(field edition) in
	ent) name=teleport-ent ;;
	*) name=teleport ;;
	esac
	fips=''
	if printf '%s' "$answer" | grep -q '"fips" *: *true'; then fips=-fips; fi
	case $(uname -m) in
	x86_64) arch=amd64 ;;
	aarch64) arch=arm64 ;;
	*) fail "there are no releases for $(uname -m)" ;;
	esac
	url=$mirror/$name-v$version-linux-$arch$fips-bin.tar.gz

	if [ "$there" = no ]; then
		temp=$(mktemp -d "$store/.new.XXXXXX")
		trap 'rm -rf "$temp"' EXIT
		curl -fsS --output "$temp/release.tar.gz" "$url"
		sum=$(curl -fsS "$url.sha256")
		got=$(sha256sum "$temp/release.tar.gz")
		[ "${sum%% *}" = "${got%% *}" ] || fail "$url does not match its checksum"
		mkdir "$temp/unpacked"
		tar -xzf "$temp/release.tar.gz" -C "$temp/unpacked" --strip-components=1 --no-same-owner
		chmod -R go-w "$temp/unpacked"
		trusted "$temp/unpacked/teleport" || fail "the release $url has no program of its own"
		"$temp/unpacked/teleport" version >/dev/null || fail "teleport $version does not run on this host"
		sync
		mv -T "$temp/unpacked" "$store/$version"
	fi

	was_active=no
	if systemctl is-active --quiet teleport; then was_active=yes; fi
	link "$version"
	if [ "$was_active" = no ]; then
		say "$version is installed; the agent was not running and is not started"
		return
	fi
	systemctl reload-or-restart teleport
	sleep "$watch"
	if runs "$version"; then
		say "$version runs"
		return
	fi
	if is_version "$now" && [ -d "$store/$now" ] && whole "$now"; then
		link "$now"
		systemctl restart teleport
		fail "$version does not run; back on $now"
	fi
	fail "$version does not run, and there is no version before it"
}

main "$@"
