#!/bin/sh
# Tells a web server how a transaction of teleport-update ended, as one JSON object by
# POST. Copy it to /etc/teleport-update/hooks/on-failure.d or on-success.d, and put
# the URL, which may hold a secret, alone into /etc/teleport-update/webhook.url (0600).
# It needs curl or wget.
set -eu

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

file=${WEBHOOK_URL_FILE:-/etc/teleport-update/webhook.url}
if ! trusted "$file"; then
	echo "webhook.sh: $file is not there, belongs to another user, or others may write it, a folder above it or a link to it" >&2
	exit 1
fi
url=$(cat "$file")

# quoted prints a JSON string. Control characters but line breaks are left out.
quoted() {
	printf '"%s"' "$(printf '%s' "$1" | tr -d '\000-\011\013-\037' | sed -e 's/[\\"]/\\&/g' -e '$!s/$/\\n/' | tr -d '\n')"
}

body="{\"host\":$(quoted "$(uname -n)")"
for field in outcome from from_edition to to_edition cause by reason time; do
	name=TELEPORT_UPDATE_HOOK_$(printf '%s' "$field" | tr '[:lower:]' '[:upper:]')
	eval "value=\${$name:-}"
	# shellcheck disable=SC2154 # eval sets it
	body="$body,\"$field\":$(quoted "$value")"
done
body="$body}"

# The URL goes by standard input, for everybody may read the arguments of a process.
if command -v curl >/dev/null; then
	printf 'url = "%s"\n' "$url" | curl --silent --show-error --fail --max-time 20 --config - \
		--output /dev/null --header 'Content-Type: application/json' --data-binary "$body"
else
	printf '%s\n' "$url" | wget -q --timeout=20 --tries=1 --input-file=- \
		--output-document=/dev/null --header='Content-Type: application/json' --post-data="$body"
fi
