#!/bin/sh
# Makes the file system below a folder fit to become an image: takes away what
# belongs to one machine, and refuses what must not be in an image.
#
#   seal-image.sh /mnt/image
#
# What stays: the updater, its configuration (updates.yaml holds the proxy and the
# group, and nothing of the machine), the versions, the links and the units.
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

# A token in an image is in every copy of the image, for ever.
token=$(sed -n 's/^[[:space:]]*\(auth_token\|token_name\):[[:space:]]*//p' "$root/etc/teleport.yaml" 2>/dev/null || true)
case $token in
'' | /*) ;;
*) fail "$root/etc/teleport.yaml holds a token: put the path of a file there, and have cloud-init write it" ;;
esac
[ ! -e "$root/etc/teleport-token" ] || fail "$root/etc/teleport-token is a token: take it out of the image"
[ ! -e "$root/var/lib/teleport/versions/journal.json" ] || fail "a switch of the agent's version was cut off: run \"teleport-update recover\" in the image"

# Empty, not "uninitialized": the latter is a first boot to systemd, which would
# then enable every unit that the distribution's presets do not exclude.
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed" "$root"/etc/ssh/ssh_host_*

# Who the agent is: two machines with one host_uuid are one to the cluster.
rm -rf "$root/var/lib/teleport/host_uuid" "$root/var/lib/teleport/proc" "$root/var/lib/teleport/log"
# With what this machine reports to a find server: a copy would report in its name.
rm -f "$root/var/lib/teleport/versions/report.json"
# What the updater remembers of this machine's time and network.
rm -rf "$root/var/lib/teleport/versions/find.json" "$root/var/lib/teleport/versions/partial" \
	"$root/var/lib/teleport/versions/update.lock" "$root/var/lib/teleport/versions/fetch.lock"
rm -rf "$root/var/log/journal" "$root"/var/lib/systemd/timers/stamp-* "$root"/var/lib/cloud/instance* "$root"/var/lib/cloud/sem
printf 'seal-image.sh: %s is ready\n' "$root" >&2
