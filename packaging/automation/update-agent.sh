#!/bin/sh
# Brings the Teleport agent of one host to the version that the cluster wants, for
# hosts that are updated by tools of your own and do not have teleport-update
# (RFD 0169, Manual Workflow).
#
#   update-agent.sh PROXY [GROUP]
#
# Run it as root, as often as you like: where there is nothing to do, it does
# nothing. A version that does not stay up for WATCH seconds (30) is taken back.
# It does less than teleport-update: no backup of the agent's database, no memory of
# a version that failed, and a power cut in the middle is yours to mend.
#
# Environment: MIRROR, where the releases are (https://cdn.teleport.dev), and WATCH.
set -eu

say() { printf 'update-agent.sh: %s\n' "$*"; }

fail() {
	say "$@" >&2
	exit 1
}

# field NAME prints a text field of the answer.
field() { printf '%s' "$answer" | sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"; }

# runs VERSION says whether the agent's main process is of that version.
runs() {
	systemctl is-active --quiet teleport || return 1
	pid=$(systemctl show --property MainPID --value teleport)
	[ "$(readlink "/proc/$pid/exe")" = "$store/$1/teleport" ]
}

# link VERSION puts a version into place, each link in one step.
link() {
	for name in tsh tctl tbot teleport; do
		[ -e "$store/$1/$name" ] || continue
		ln -sfn "$store/$1/$name" "/usr/local/bin/.$name.new"
		mv -fT "/usr/local/bin/.$name.new" "/usr/local/bin/$name"
	done
	mkdir -p /usr/local/lib/systemd/system
	cp "$store/$1/examples/systemd/teleport.service" /usr/local/lib/systemd/system/teleport.service
	systemctl daemon-reload
}

main() {
	[ $# -ge 1 ] || fail "usage: update-agent.sh PROXY [GROUP]"
	proxy=$1 group=${2-}
	store=/opt/teleport-agent
	mirror=${MIRROR:-https://cdn.teleport.dev}
	watch=${WATCH:-30}

	uuid=$(cat /var/lib/teleport/host_uuid 2>/dev/null || true)
	answer=''
	for path in /v1/webapi/find /webapi/find; do
		answer=$(curl -fsS --get --data-urlencode "host=$uuid" --data-urlencode "group=$group" "https://$proxy$path") && break
	done
	version=$(field agent_version)
	case $version in
	'') fail "$proxy names no version" ;;
	*[!0-9A-Za-z.+-]*) fail "$proxy names a version that cannot be read: nothing was changed" ;;
	esac
	now=$(readlink /usr/local/bin/teleport 2>/dev/null || true)
	now=${now#"$store"/}
	now=${now%/teleport}
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

	if [ ! -d "$store/$version" ]; then
		mkdir -p "$store"
		temp=$(mktemp -d "$store/.new.XXXXXX")
		trap 'rm -rf "$temp"' EXIT
		curl -fsS --output "$temp/release.tar.gz" "$url"
		sum=$(curl -fsS "$url.sha256")
		got=$(sha256sum "$temp/release.tar.gz")
		[ "${sum%% *}" = "${got%% *}" ] || fail "$url does not match its checksum"
		mkdir "$temp/unpacked"
		tar -xzf "$temp/release.tar.gz" -C "$temp/unpacked" --strip-components=1 --no-same-owner
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
	if [ -n "$now" ] && [ -d "$store/$now" ]; then
		link "$now"
		systemctl restart teleport
		fail "$version does not run; back on $now"
	fi
	fail "$version does not run, and there is no version before it"
}

main "$@"
