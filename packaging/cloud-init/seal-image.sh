#!/bin/sh
# Prepares the file system below a folder to become an image: removes the data of
# one machine, and refuses an image with secrets.
#
#   seal-image.sh /mnt/image
#
# The updater, its configuration (updates.yaml holds the proxy and the group, and
# nothing of the machine), the versions, the links and the units stay. All data of the
# agent and the updater about this machine are removed. An updater reads the
# configuration: the image's own, or else this machine's.
set -eu

fail() {
	printf 'seal-image.sh: %s\n' "$*" >&2
	exit 1
}

root=${1-}
[ -n "$root" ] || fail "usage: seal-image.sh FOLDER"
[ -d "$root/etc" ] || fail "$root is not a root file system"
case $(cd "$root" && pwd -P) in
/) fail "this is the running system, not an image" ;;
esac

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

# look prints what the updater finds below the folder: "secret SENTENCE", and "data FOLDER"
# for each folder of an agent's state. The updater is the image's, else this machine's, else
# the one that "make build" made in this checkout.
look() {
	for program in "$root/usr/bin/teleport-update" "$root/usr/local/sbin/teleport-update" \
		"$root/var/lib/teleport/updater/teleport-update" "$(command -v teleport-update || :)" \
		"$(dirname "$0")/../../build/bin/teleport-update"; do
		if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
		case $program in /*) ;; *) program=$(pwd -P)/$program ;; esac
		trusted "$program" || continue
		"$program" image --root "$root" "$@" 2>/dev/null && return
		# Of another kind of machine, an older one, or one that cannot read something.
		why=$("$program" image --root "$root" "$@" 2>&1 >/dev/null || :)
	done
	# Without a program that reads it, nobody knows what is in there.
	for file in "$root"/etc/teleport*.y*ml "$root"/etc/teleport/*.y*ml "$root"/etc/tbot* "$root"/etc/default/teleport "$root"/etc/systemd/system/teleport*; do
		[ ! -s "$file" ] || fail "$file is not looked at: no teleport-update in the image, or of this machine, can read it. $why"
	done
	printf 'data /var/lib/teleport\n'
}
why=''

# A token in an image is in every copy of the image, for ever.
found=$(look)
secrets=$(printf '%s\n' "$found" | sed -n 's/^secret //p')
[ -z "$secrets" ] || fail "$secrets"
[ ! -e "$root/etc/teleport-token" ] || fail "$root/etc/teleport-token is a token: take it out of the image"
# Nothing is removed through a link that leads out of the image, say to /opt of this host.
top=$(cd "$root" && pwd -P)
stays_inside() {
	[ ! -d "$root$1" ] || case $(cd "$root$1" && pwd -P)/ in
	"$top"/*) ;;
	*) fail "$root$1 leads out of the image: make it a folder, or a link that is relative" ;;
	esac
}
for dir in /etc /etc/ssh /var/lib/dbus /var/lib/systemd /var/lib/systemd/timers /var/lib/cloud /var/log /var/lib/teleport /var/lib/teleport/versions /run /etc/teleport-update; do
	stays_inside "$dir"
done
programs=$(sed -n "s/^ *programs_dir: *[\"']*\([^\"']*\).*/\1/p" "$root/var/lib/teleport/versions/updates.yaml" 2>/dev/null || :)
programs=${programs:-/opt/teleport-update}
stays_inside "$programs"
states=$(printf '%s\n' "$found" | sed -n 's/^data //p' | grep -vx /var/lib/teleport || :)
for dir in $states; do
	stays_inside "$dir"
	stays_inside "$dir/proc"
done
[ ! -e "$root/var/lib/teleport/versions/journal.json" ] || fail "a change of the agent's version was cut off: run \"teleport-update recover\" in the image"

# Empty, not "uninitialized": the latter is a first boot to systemd, which would
# then enable every unit that the distribution's presets do not exclude.
rm -f "$root/etc/machine-id"
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed" "$root"/etc/ssh/ssh_host_*

# The agent's identity: two machines with one host_uuid are one to the cluster, and a copy
# or a backup of the database has the keys of this machine. Everything in the data folder
# is the agent's, except the updater's copy of itself, its configuration and the versions.
for entry in "$root"/var/lib/teleport/* "$root"/var/lib/teleport/.[!.]*; do
	case ${entry##*/} in
	versions | updater) ;;
	*) rm -rf "$entry" ;;
	esac
done
for entry in "$root"/var/lib/teleport/versions/* "$root"/var/lib/teleport/versions/.[!.]*; do
	case ${entry##*/} in
	updates.yaml) ;;
	original | [0-9]*.[0-9]*.[0-9]*) if [ -L "$entry" ]; then rm -f "$entry"; else rm -rf "$entry/backup"; fi ;;
	*) rm -rf "$entry" ;; # history, report, locks, downloads, the last answer
	esac
done
for dir in $states; do
	rm -rf "$root$dir/host_uuid" "$root$dir/proc" "$root$dir/log"
done
rm -rf "$root$programs"/.staging-* "$root$programs"/.tmp-*
rm -rf "$root/run/teleport-update" "$root/run/teleport-update-agent"
# The address of a webhook is its password.
rm -f "$root/etc/teleport-update/webhook.url"
rm -rf "$root/var/log/journal" "$root"/var/lib/systemd/timers/stamp-* "$root"/var/lib/cloud/instance* "$root"/var/lib/cloud/sem
found=$(look --sealed)
left=$(printf '%s\n' "$found" | sed -n 's/^secret //p')
[ -z "$left" ] || fail "$left"
printf 'seal-image.sh: %s is ready\n' "$root" >&2
