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

# values KEYS prints what each of these keys of teleport.yaml holds, a line each, in
# YAML's block style and in its flow style ("{a: b}"); "-" where there is nothing.
values() {
	[ -e "$root/etc/teleport.yaml" ] || return 0
	awk -v keys="$1" '
		function strip(s) { sub(/^[[:space:]]+/, "", s); sub(/[[:space:]]+$/, "", s); return s }
		{
			line = $0
			sub(/^[[:space:]]*#.*/, "", line)
			sub(/[[:space:]]#.*/, "", line)
			if (open && strip(line) != "") { # the value that an earlier line began
				if (line !~ /:([[:space:]]|$)/) { print strip(line) } else { print "-" }
				open = 0
			}
			while (match(line, "(^|[[:space:]{,\"\047])(" keys ")[\"\047]?[[:space:]]*:([[:space:]]|$)")) {
				line = strip(substr(line, RSTART + RLENGTH))
				if (line == "") { open = 1; break }
				value = line
				sub(/[,}].*/, "", value)
				gsub(/["\047]/, "", value)
				value = strip(value)
				print value == "" || value == "~" || value == "null" ? "-" : value
			}
		}
		END { if (open) print "-" }' "$root/etc/teleport.yaml"
}

# A token in an image is in every copy of the image, for ever. With these methods the
# machine proves by itself who it is, and the name of its token is no secret.
holds='holds a token: put the path of a file there, and have cloud-init write it'
secrets='auth_token|token_secret|registration_secret|registration_secret_value'
methods=$(values method)
[ -n "$methods" ] || methods=token
for method in $methods; do
	case $method in
	azure | azure_devops | bitbucket | circleci | ec2 | env0 | gcp | github | gitlab | iam | kubernetes | oracle | spacelift | terraform_cloud | tpm) ;;
	*) secrets="$secrets|token_name" ;;
	esac
done
values "$secrets" | while IFS= read -r token; do
	case $token in
	-) ;;
	/*) [ ! -e "$root$token" ] || fail "$root$token is a token: take it out of the image" ;;
	*) fail "$root/etc/teleport.yaml $holds" ;;
	esac
done
[ ! -e "$root/etc/teleport-token" ] || fail "$root/etc/teleport-token is a token: take it out of the image"
# Nothing is removed through a link that leads out of the image, say to /opt of this host.
top=$(cd "$root" && pwd -P)
stays_inside() {
	[ ! -d "$root$1" ] || case $(cd "$root$1" && pwd -P)/ in
	"$top"/*) ;;
	*) fail "$root$1 leads out of the image: make it a folder, or a link that is relative" ;;
	esac
}
for dir in /etc /etc/ssh /var/lib/dbus /var/lib/systemd /var/lib/systemd/timers /var/lib/cloud /var/log /var/lib/teleport /var/lib/teleport/versions; do
	stays_inside "$dir"
done
programs=$(sed -n "s/^ *programs_dir: *[\"']*\([^\"']*\).*/\1/p" "$root/var/lib/teleport/versions/updates.yaml" 2>/dev/null || :)
programs=${programs:-/opt/teleport-update}
stays_inside "$programs"
[ ! -e "$root/var/lib/teleport/versions/journal.json" ] || fail "a change of the agent's version was cut off: run \"teleport-update recover\" in the image"

# Empty, not "uninitialized": the latter is a first boot to systemd, which would
# then enable every unit that the distribution's presets do not exclude.
rm -f "$root/etc/machine-id"
: >"$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root/var/lib/systemd/random-seed" "$root"/etc/ssh/ssh_host_*

# Who the agent is: two machines with one host_uuid are one to the cluster.
rm -rf "$root/var/lib/teleport/host_uuid" "$root/var/lib/teleport/proc" "$root/var/lib/teleport/log"
# With what this machine reports to a find server: a copy would report in its name.
rm -f "$root/var/lib/teleport/versions/report.json"
# What the updater remembers of this machine's time and network.
rm -rf "$root/var/lib/teleport/versions/find.json" "$root/var/lib/teleport/versions/partial" \
	"$root/var/lib/teleport/versions/update.lock" "$root/var/lib/teleport/versions/fetch.lock" \
	"$root$programs"/.staging-* "$root$programs"/.tmp-*
rm -rf "$root/var/log/journal" "$root"/var/lib/systemd/timers/stamp-* "$root"/var/lib/cloud/instance* "$root"/var/lib/cloud/sem
printf 'seal-image.sh: %s is ready\n' "$root" >&2
