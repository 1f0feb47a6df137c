#!/bin/sh
# PostgreSQL 15: what COMMIT answers if somebody cancels its wait for a synchronous standby.
#
# The transaction is committed on the primary, so COMMIT cannot fail any more. It answers with success, and a warning of the general class
# 01000 alone says that the standby may lack the transaction (SyncRepWaitForLSN() in src/backend/replication/syncrep.c). A driver drops
# warnings unless it is asked for them. statement_timeout does not end the wait: it is switched off before the commit
# (finish_xact_command() in src/backend/tcop/postgres.c).
#
# So a program that must not lose a change in a failover has to read the warnings of COMMIT, and to ask again with a commit that waits.
set -eu

MAJOR=15 # of Debian 12

dir=$(mktemp -d)
stop=:
trap '$stop; rm -rf --one-file-system "$dir"' EXIT
trap 'exit 2' HUP INT TERM
cannot() { echo "could not look: $*" >&2; exit 2; }

[ "$(id -u)" = 0 ] || cannot "run this as root: it uses a chroot"
echo "making a Debian 12 with PostgreSQL in $dir"
mmdebstrap --quiet --variant=minbase --include=postgresql-$MAJOR bookworm "$dir/root" >&2 || cannot "mmdebstrap failed"
in_root() { chroot "$dir/root" env -i PATH=/usr/lib/postgresql/$MAJOR/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
as_postgres() { in_root setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
sql() { as_postgres psql -X -q -At -h /srv -d postgres "$@"; }

in_root install -d -o postgres /srv/data
in_root chown postgres /srv
as_postgres initdb -D /srv/data --auth=trust --no-sync >/dev/null || cannot "initdb failed"
as_postgres sh -c 'cat >>/srv/data/postgresql.conf' <<'C'
listen_addresses = ''
unix_socket_directories = '/srv'
dynamic_shared_memory_type = mmap
C
# shellcheck disable=SC2317 # the trap calls it
stop_server() { as_postgres pg_ctl -s -D /srv/data -m immediate stop >/dev/null 2>&1 || :; }
stop=stop_server
as_postgres pg_ctl -s -w -D /srv/data -l /srv/log start >/dev/null || cannot "PostgreSQL does not start"
version=$(sql -c 'SHOW server_version')
echo "PostgreSQL $version"
case $version in $MAJOR.*) ;; *) cannot "this is about PostgreSQL $MAJOR" ;; esac

sql -c 'CREATE TABLE t (x int)' -c "ALTER SYSTEM SET synchronous_standby_names = 'nobody'" -c 'SELECT pg_reload_conf()' >/dev/null
echo "== with a standby that is away and statement_timeout = 1s: INSERT, COMMIT; after three seconds somebody cancels the wait"
sql -v VERBOSITY=verbose -v ON_ERROR_STOP=1 -c "SET statement_timeout = '1s'" -c BEGIN -c 'INSERT INTO t VALUES (1)' -c COMMIT \
	>"$dir/commit" 2>&1 &
commit=$!
waiting() { sql -c "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"; }
tries=0
until [ "$(waiting)" = 1 ]; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || cannot "the commit does not wait"
	sleep 0.2
done
sleep 3
after=$(waiting)
echo "commits that still wait after three seconds: $after"
sql -c "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'" >/dev/null
code=0
wait $commit || code=$?
rows=$(sql -c 'SELECT count(*) FROM t')
echo "psql with ON_ERROR_STOP ends with $code, and printed:"
cat "$dir/commit"
echo "rows in the table: $rows"
if [ "$after" = 1 ] && [ $code = 0 ] && [ "$rows" = 1 ] && grep -q '^WARNING: *01000: .*synchronous replication' "$dir/commit"; then
	exit 0
fi
echo CHANGED
exit 1
