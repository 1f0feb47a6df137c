package acts

import "strings"

// action is what somebody else does to a host.
type action struct {
	name string
	// do and undo are shell scripts. They find where things are in STORE, LINKS, UNIT,
	// DATA and PIDFILE, the versions in OLD and NEW, folders of their own in ASIDE and,
	// beside the data, AWAY, and in KILLED whether the updater does not go on. undo is run
	// by root, whatever is left of what do did.
	do, undo string
	// before is done before the transaction begins, and undone with all the rest.
	before string
	// foreign is a file of the actor's, which holds what FOREIGN says: it stays in its
	// place, or is saved and named.
	foreign string
	// serves: the version that fails is one that serves.
	serves bool
	// hides: as long as it is in force, the database that belongs to the agent cannot be
	// looked at.
	hides bool
	// rowsGo says why rows may be lost for good.
	rowsGo string
	// spoils: so may be the database, which no undoing brings back.
	spoils bool
	// live: it is over when the host loses its processes.
	live bool
	// slow: each run of the updater waits for what is away.
	slow bool
	// own: the agent runs as a user of its own, with its data on a mount of its own.
	own bool
	// byUser: that user does it.
	byUser bool
	// on is the thing that it is done to: two acts on one are in no pair.
	on string
	// parts are the acts of a pair.
	parts []action
	// data is where the agent's data are once it is done; empty: where they were.
	data string
	// yesterday: the host has been updated before it is done, and $YESTERDAY holds
	// the store as it was before.
	yesterday bool
	// elsewhere is a folder of versions to which somebody else has the links lead.
	elsewhere string
	// exchanged: another program is in the folder of the old version.
	exchanged bool
}

// actions are all that others do. What a family of them has in common is in its
// function; an action that stands for itself is one entry in various.
func actions() (all []action) {
	all = append(all, inTheWay()...)
	all = append(all, withTheDatabase()...)
	all = append(all, withFiles()...)
	all = append(all, withTrees()...)
	all = append(all, withSystemd()...)
	all = append(all, withTheFolder()...)
	all = append(all, withTheMount()...)
	all = append(all, various()...)
	return append(all, byTheAgentsUser()...)
}

// fill puts a path, and other words, into a script.
func fill(script string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(script)
}

// inTheWay puts something where a link or the unit goes.
func inTheWay() (all []action) {
	for _, place := range [][2]string{
		{"the link teleport", linkDir + "/teleport"}, {"the link tsh", linkDir + "/tsh"}, {"the link tctl", linkDir + "/tctl"},
		{"the link tbot", linkDir + "/tbot"}, {"the unit", unitFile},
	} {
		file := `cp -L --remove-destination P $ASIDE/was 2>/dev/null || :; rm -f P; echo "# $FOREIGN" >P; [ P != $UNIT ] || cat $ASIDE/was >>P`
		for _, a := range []action{
			{name: "a file", foreign: place[1], do: file, undo: `grep -qs $FOREIGN P && rm -f P || :`},
			{name: "a folder", foreign: place[1] + "/file", do: `rm -f P; mkdir P; echo $FOREIGN >P/file`, undo: `grep -qs $FOREIGN P/file && rm -r P || :`},
			{name: "a foreign link", do: `ln -sfn /root/elsewhere P`, undo: `[ "$(readlink P)" != /root/elsewhere ] || rm P`},
		} {
			a.name += " takes the place of " + place[0]
			a.on = place[1]
			a.do, a.undo = fill(a.do, "P", place[1]), fill(a.undo, "P", place[1])
			all = append(all, a)
		}
	}
	return all
}

// Files of a database that were taken away from under a connection: SQLite itself
// says that rows may be lost then.
const takenAway = "who takes a file from under SQLite takes rows with it"

// withTheDatabase opens, locks and takes away files of the database.
func withTheDatabase() (all []action) {
	for _, file := range []string{"sqlite.db", "sqlite.db-wal", "sqlite.db-shm"} {
		path := "$DATA/proc/" + file
		// The locks of a write-ahead log lie in its -shm: an old and a new process with one each
		// do not see one another.
		shared := file != "sqlite.db"
		all = append(all,
			user(file+" is open for reading", "exec sleep infinity <"+path),
			user(file+" is open for writing", "exec sleep infinity 3<>"+path),
			user(file+" is locked", "exec flock -x "+path+" sleep infinity"),
			action{name: file + " is removed", do: "rm -f " + path, undo: "systemctl restart teleport", hides: true, rowsGo: takenAway, spoils: shared},
			// What the database outgrew is not put back: that would be another harm, and SQLite
			// would believe it.
			action{name: file + " is renamed", do: fill("[ ! -e P ] || mv P P.moved", "P", path), hides: true, rowsGo: takenAway, spoils: shared,
				undo: fill(`systemctl stop teleport; [ -e P ] || [ ! P.moved -nt $DATA/proc/sqlite.db ] || mv P.moved P; rm -f P.moved; systemctl start teleport`, "P", path)},
		)
	}
	shell := func(sql string) string {
		return "{ echo '.timeout 10000'; echo '" + sql + "'; sleep infinity; } | sqlite3 $DATA/proc/sqlite.db"
	}
	return append(all,
		user("a connection to the database idles", shell("SELECT count(*) FROM sqlite_schema;")),
		user("a read transaction on the database is open", shell("BEGIN; SELECT count(*) FROM sqlite_schema;")),
		user("a write transaction on the database is open", shell("BEGIN IMMEDIATE;")),
	)
}

// user is a program that uses the agent's data.
func user(name, program string) action {
	return action{
		name: name, serves: true, live: true,
		do: `[ ! -e $DATA/proc/sqlite.db ] || {
			systemd-run --quiet --unit=other-user --setenv=DATA=$DATA $AS sh -c '` + strings.ReplaceAll(program, "'", `'\''`) + `'
			for i in $(seq 1 1500); do
				for p in $(cat /sys/fs/cgroup/system.slice/other-user.service/cgroup.procs 2>/dev/null); do readlink /proc/$p/fd/* || :; done | grep -q ^$DATA/proc/ && break
				systemctl is-active --quiet other-user || break; sleep 0.02
			done; }`,
		undo: "systemctl stop other-user 2>/dev/null || :",
	}
}

// keep keeps a file, putBack puts it back where nobody else did.
const (
	keep    = `[ ! -e P ] || cp -a P $ASIDE/kept; `
	putBack = `[ ! -e $ASIDE/kept ] || ! [ -d $(dirname P) ] || cp -a --remove-destination $ASIDE/kept P`
)

// withFiles breaks, empties, removes and gives away files that the updater reads.
func withFiles() (all []action) {
	for _, file := range [][2]string{
		{"updates.yaml", "$STORE/updates.yaml"}, {"teleport.yaml", "/etc/teleport.yaml"}, {"the journal", "$STORE/journal.json"},
		{"the digest of the old version", "$STORE/$OLD/sha256"}, {"the manifest of the old version", "$STORE/$OLD/manifest"},
		{"the edition of the old version", "$STORE/$OLD/edition"}, {"the digest of the new version", "$STORE/$NEW/sha256"},
		{"the manifest of the new version", "$STORE/$NEW/manifest"}, {"backup.yaml of the old version", "$STORE/$OLD/backup/backup.yaml"},
	} {
		// A journal that is gone from under an updater at work is written again, or was
		// ended: nobody brings an old one back then.
		missing := `[ -e P ] || `
		if file[0] == "the journal" {
			missing = `[ -e P ] || [ $KILLED = no ] || `
		}
		for _, a := range []action{
			{name: "is broken", do: keep + `[ ! -d $(dirname P) ] || echo '{[ broken' >P`, undo: `! grep -qsx '{. broken' P || ` + putBack},
			{name: "is emptied", do: keep + `[ ! -d $(dirname P) ] || : >P`, undo: `[ ! -e P ] || [ -s P ] || ` + putBack},
			{name: "is removed", do: keep + `rm -f P`, undo: missing + putBack},
			{name: "may be written by everybody", do: keep + `[ ! -e P ] || chmod 666 P`, undo: `[ ! -e P ] || [ "$(stat -c %a P)" != 666 ] || chmod --reference=$ASIDE/kept P`},
			{name: "belongs to another user", do: keep + `[ ! -e P ] || chown daemon P`, undo: `[ ! -e P ] || [ "$(stat -c %U P)" != daemon ] || chown --reference=$ASIDE/kept P`},
		} {
			a.name, a.on = file[0]+" "+a.name, file[1]
			a.do, a.undo = fill(a.do, "P", file[1]), fill(a.undo, "P", file[1])
			all = append(all, a)
		}
	}
	return all
}

// withTrees takes versions away.
func withTrees() (all []action) {
	const (
		removed = `mv $STORE/V $ASIDE/V; mv $PROGRAMS/V $ASIDE/V.programs; `
		back    = `[ ! -e $ASIDE/V ] || { rm -rf $STORE/V; mv $ASIDE/V $STORE/V; }; ` +
			`[ ! -e $ASIDE/V.programs ] || { rm -rf $PROGRAMS/V; mv $ASIDE/V.programs $PROGRAMS/V; }; `
		unusable, usable = `chmod 000 $PROGRAMS/V/bin/teleport; `, `[ ! -e $PROGRAMS/V ] || chmod 755 $PROGRAMS/V/bin/teleport; `
	)
	for _, v := range [][2]string{{"the old version", "$OLD"}, {"the new version", "$NEW"}} {
		all = append(all,
			action{name: v[0] + " is removed", do: fill(removed, "V", v[1]), undo: fill(back, "V", v[1])},
			action{name: v[0] + " cannot be executed", do: fill(unusable, "V", v[1]), undo: fill(usable, "V", v[1])},
		)
	}
	return append(all, action{name: "both versions are removed", do: fill(removed, "V", "$OLD") + fill(removed, "V", "$NEW"), undo: fill(back, "V", "$OLD") + fill(back, "V", "$NEW")})
}

// withSystemd has systemd not answer, or do something else than it did.
func withSystemd() (all []action) {
	const (
		away = `mv /run/systemd/private /run/systemd/private.away; mv /run/dbus/system_bus_socket /run/dbus/system_bus_socket.away; `
		back = `[ ! -e /run/systemd/private.away ] || mv /run/systemd/private.away /run/systemd/private
			[ ! -e /run/dbus/system_bus_socket.away ] || mv /run/dbus/system_bus_socket.away /run/dbus/system_bus_socket`
	)
	all = []action{
		{name: "systemd is away for a second", do: away + `setsid sh -c 'sleep 1; ` + back + `' >/dev/null 2>&1 &`, undo: back, live: true},
		{name: "systemd is away", do: away, undo: back, live: true, slow: true},
		{name: "systemd executes itself again", do: `systemctl daemon-reexec`, undo: ":", live: true},
		{name: "systemd reads its units again", do: `systemctl daemon-reload`, undo: ":", live: true},
		{name: "the agent is masked", do: `systemctl mask teleport`, undo: `systemctl unmask teleport`},
		{name: "a drop-in has the agent start another program", do: `mkdir -p /etc/systemd/system/teleport.service.d
			printf '[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n' >/etc/systemd/system/teleport.service.d/90-other.conf; systemctl daemon-reload`,
			undo: `rm -f /etc/systemd/system/teleport.service.d/90-other.conf; systemctl daemon-reload; systemctl restart teleport`},
		{name: "a drop-in sets a variable of the agent's", do: `mkdir -p /etc/systemd/system/teleport.service.d
			printf '[Service]\nEnvironment=OTHER=1\n' >/etc/systemd/system/teleport.service.d/90-other.conf; systemctl daemon-reload`,
			undo: `rm -f /etc/systemd/system/teleport.service.d/90-other.conf; systemctl daemon-reload`},
	}
	for _, unit := range []string{"teleport-update.timer", "teleport-update-recover.service"} {
		all = append(all,
			action{name: unit + " is disabled", do: "systemctl --quiet disable " + unit, undo: "systemctl --quiet enable " + unit},
			action{name: unit + " is masked", do: "systemctl --quiet mask " + unit, undo: fill("systemctl --quiet unmask U; systemctl --quiet enable U", "U", unit)},
		)
	}
	return all
}

// withTheFolder exchanges the folder of the database. Who puts it back stops the
// agent for it.
func withTheFolder() (all []action) {
	const (
		away = `mv $DATA/proc $AWAY; `
		back = `[ ! -e $AWAY ] || { systemctl stop teleport || :; rm -rf $DATA/proc; mv $AWAY $DATA/proc; systemctl start teleport || :; }`
	)
	for _, a := range []action{
		{name: "a link to a folder of root's", do: away + `ln -s /srv/elsewhere $DATA/proc`, undo: back},
		{name: "an empty folder", do: away + `mkdir $DATA/proc`, undo: back},
		{name: "a file", do: away + `: >$DATA/proc`, undo: back},
		{name: "nothing", do: away, undo: back},
	} {
		a.name, a.hides = a.name+" takes the place of proc", true
		all = append(all, a)
	}
	return all
}

// withTheMount does something to the file system that holds the agent's data.
func withTheMount() []action {
	return []action{
		{name: "the data are unmounted", own: true, hides: true, do: `mv /etc/systemd/system/srv-agent.mount $ASIDE; systemctl daemon-reload; umount -l $DATA`,
			undo: `[ ! -e $ASIDE/srv-agent.mount ] || mv $ASIDE/srv-agent.mount /etc/systemd/system; systemctl daemon-reload
				systemctl stop teleport; umount -l $DATA 2>/dev/null || :; systemctl restart srv-agent.mount; systemctl start teleport`},
		{name: "the data are mounted late", own: true, do: `mkdir -p /etc/systemd/system/srv-agent.mount.d
			printf '[Unit]\nRequires=late.service\nAfter=late.service\n' >/etc/systemd/system/srv-agent.mount.d/late.conf
			printf '[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 2\n' >/etc/systemd/system/late.service`,
			undo: `rm -rf /etc/systemd/system/srv-agent.mount.d /etc/systemd/system/late.service; systemctl daemon-reload`},
		{name: "the data are read-only", own: true, live: true, do: `mount --bind $DATA $DATA; mount -o remount,bind,ro $DATA`,
			undo: `[ "$(grep -c " $DATA " /proc/mounts)" -lt 2 ] || umount -l $DATA; systemctl restart teleport`},
		{name: "the data's file system is full", own: true, live: true, do: `dd if=/dev/zero of=$DATA/ballast bs=4k count=8192 2>/dev/null || :`, undo: `rm -f $DATA/ballast`,
			before: `systemctl stop teleport; mount -t tmpfs -o size=24m tmpfs $DATA; cp -a /srv/disk/. $DATA; chown agent: $DATA; rm -f $PIDFILE; systemctl start teleport
				for i in $(seq 1 3000); do [ -e $PIDFILE ] && break; sleep 0.01; done`},
	}
}

// various are actions that stand for themselves.
func various() []action {
	const shift = `for f in $STORE/updates.yaml $STORE/journal.json $STORE/find.json $STORE/*/backup/backup.yaml; do
		[ ! -e $f ] || { sed -i "s/$(date +%Y)-/$(($(date +%Y) BY 1))-/g" $f; touch -d "BY 1 year" $f; }; done`
	const unshift = `for f in $STORE/updates.yaml $STORE/journal.json $STORE/find.json $STORE/*/backup/backup.yaml; do
		[ ! -e $f ] || sed -i "s/$(($(date +%Y) BY 1))-/$(date +%Y)-/g" $f; done`
	return []action{
		{name: "nothing", do: ":", undo: ":"},
		{name: "the clock was a year ahead", do: fill(shift, "BY", "+"), undo: fill(unshift, "BY", "+")},
		{name: "the clock was a year behind", do: fill(shift, "BY", "-"), undo: fill(unshift, "BY", "-")},
		{name: "a power cut empties updates.yaml and the journal", on: "$STORE/updates.yaml",
			do: `cp -a $STORE/updates.yaml $ASIDE/U; : >$STORE/updates.yaml; [ ! -e $STORE/journal.json ] || { cp -a $STORE/journal.json $ASIDE/J; : >$STORE/journal.json; }`,
			undo: `[ -s $STORE/updates.yaml ] || cp -a $ASIDE/U $STORE/updates.yaml
				[ ! -e $STORE/journal.json ] || [ -s $STORE/journal.json ] || [ ! -e $ASIDE/J ] || cp -a $ASIDE/J $STORE/journal.json`},
		{name: "a package manager upgrades the updater", do: `cp -a $UPDATER $UPDATER.dpkg-new; mv $UPDATER.dpkg-new $UPDATER; systemctl daemon-reload`, undo: ":"},
		{name: "the agent's user is gone", own: true, do: `sed -i /^agent:/d /etc/passwd`, undo: `grep -q ^agent: /etc/passwd || echo agent:x:990:990::/nonexistent:/bin/sh >>/etc/passwd; systemctl reset-failed teleport || :`},
	}
}

const byUserPrefix = "the agent's user: "

// byTheAgentsUser has the unprivileged user of the agent's do all of this that it
// can, and what only somebody does who means harm.
func byTheAgentsUser() (all []action) {
	all = append(withTheDatabase(), withTheFolder()...)
	for _, a := range withFiles() {
		if a.name == "teleport.yaml is broken" || a.name == "teleport.yaml is emptied" {
			all = append(all, a)
		}
	}
	db := func(name, do string) action {
		return action{name: name, do: `mv $DATA/proc/sqlite.db $DATA/moved; ` + do, hides: true, rowsGo: takenAway,
			undo: `systemctl stop teleport || :; [ -f $DATA/proc/sqlite.db ] && [ ! -L $DATA/proc/sqlite.db ] || { rm -rf $DATA/proc/sqlite.db; mv $DATA/moved $DATA/proc/sqlite.db; }
				rm -f $DATA/moved; systemctl start teleport || :`}
	}
	all = append(all,
		db("the database becomes a link to a file of root's", `ln -s /etc/shadow $DATA/proc/sqlite.db`),
		db("the database becomes a pipe", `mkfifo $DATA/proc/sqlite.db`),
		db("the database becomes a folder", `mkdir $DATA/proc/sqlite.db`),
	)
	for n := range all {
		all[n].name = byUserPrefix + all[n].name
		all[n].own, all[n].byUser = true, true
	}
	return all
}
