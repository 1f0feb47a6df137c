package acts

// moment is when something is done to a host, as endat knows moments, and what.
type moment struct{ at, script string }

// phase is where a transaction is held while others act.
type phase struct {
	name string
	// healthy and fails say how a transaction to a healthy version, and to one that fails,
	// comes there: empty, that it never does. The action takes the place of ACTION.
	healthy, fails []moment
	boots          bool // the host loses all of its processes there, and boots
}

// theAction stands in a script for what the actor does.
const theAction = "ACTION"

// The new version has been told to take over, and has: it serves, or has migrated
// the database and left.
// One that does not come there is not waited for for ever: a look at a locked database takes seconds.
// Without a PID file it never comes: the reload reaches nobody.
const inMidWatch = `end=$(( $(date +%s) + 90 )); none=0
while [ $(date +%s) -lt $end ] && [ $none -lt 300 ]; do
	if [ -e $PIDFILE ]; then none=0; else none=$(( none + 1 )); fi
	[ "$(readlink /proc/$(cat $PIDFILE)/exe)" = "$(readlink -f $PROGRAMS/$NEW/bin/teleport)" ] && break
	[ "$(timeout 60 sqlite3 -readonly -cmd '.timeout 10000' $DATA/proc/sqlite.db 'PRAGMA user_version')" = 2 ] && [ $NEW = ` + dies + ` ] && break
	sleep 0.01
done
`

// A healthy version is put back when the updater is told to stop.
var stopped = moment{"message:ReloadUnit", inMidWatch + "kill -TERM $PROGRAM\n"}

// phases are where a transaction may be.
var phases = []phase{
	{name: "begun", healthy: []moment{{"phase:begun", theAction}}, fails: []moment{{"phase:begun", theAction}}},
	{name: "switched", healthy: []moment{{"phase:switched", theAction}}, fails: []moment{{"phase:switched", theAction}}},
	{name: "in mid-watch", healthy: []moment{{"message:ReloadUnit", inMidWatch + theAction}}, fails: []moment{{"message:ReloadUnit", inMidWatch + theAction}}},
	{name: "rolling back", healthy: []moment{stopped, {"phase:rolling_back", theAction}}, fails: []moment{{"phase:rolling_back", theAction}}},
	{name: "restored", healthy: []moment{stopped, {"phase:restored", theAction}}, fails: []moment{{"phase:restored", theAction}}},
	{name: "proven", healthy: []moment{{"phase:proven", theAction}}},
	{name: "at boot", boots: true, healthy: []moment{{"message:ReloadUnit", inMidWatch + theAction}}, fails: []moment{{"message:ReloadUnit", inMidWatch + theAction}}},
}
