package acts

// withLayouts are hosts that are laid out otherwise than an install leaves them: by configuration management that copies
// instead of linking, by people who moved folders to another disk, and by hardening that closes folders.
func withLayouts() []action {
	const (
		stop = `systemctl stop teleport; `
		data = `d=$(readlink -f $DATA); `
		// each names a link and the program that it leads to.
		each = `for l in teleport tsh tctl tbot; do p=$(readlink -f $LINKS/$l); `
	)
	moved := func(what string) string {
		return stop + `mkdir -p /srv/moved; mv ` + what + ` /srv/moved/it; ln -s /srv/moved/it ` + what + `; ` + startsAgain
	}
	aside := func(path string) (before, undo string) {
		return fill(`mv P $ASIDE/A; systemctl daemon-reload`, "P", path),
			fill(`[ ! -e $ASIDE/A ] || { mkdir -p P; cp -an $ASIDE/A/. P/; }; systemctl daemon-reload; systemctl start teleport teleport-update.timer || :`, "P", path)
	}
	all := closedToTheAgentsUser()
	unitsGone, unitsBack := aside("/usr/local/lib/systemd/system")
	linksGone, linksBack := aside("$LINKS")
	programsGone, programsBack := aside("$PROGRAMS")
	return append(all, []action{
		{name: "the links are copies of the programs", on: "links", before: each + `rm $LINKS/$l; cp $p $LINKS/$l; done`, undo: ":"},
		{name: "the agent runs a copy of its program", on: "links", before: stop + each + `rm $LINKS/$l; cp $p $LINKS/$l; done; ` + startsAgain, undo: ":"},
		{name: "the links are relative", on: "links", before: each + `ln -sfn ../../..$p $LINKS/$l; done`, undo: ":"},
		{name: "the database's folder is a link", on: "proc", before: moved(`$DATA/proc`), undo: ":"},
		{name: "the programs' folder is a link", on: "$PROGRAMS", before: moved(`$PROGRAMS`), undo: ":"},
		{name: "the store is a link", on: "store", before: moved(`$STORE`), undo: ":"},
		{name: "teleport.yaml is a link", on: "/etc/teleport.yaml", before: `mkdir -p /srv/moved; mv /etc/teleport.yaml /srv/moved/teleport.yaml; ln -s /srv/moved/teleport.yaml /etc/teleport.yaml`, undo: ":"},
		{name: "the database's folder is a mount", on: "proc", live: true, before: data + `mount --bind $d/proc $d/proc`,
			undo: data + `while grep -q " $d/proc " /proc/mounts; do umount -l $d/proc; done`},
		{name: "the PID file is gone", on: "$PIDFILE", before: `rm -f $PIDFILE`, undo: `[ -s $PIDFILE ] || systemctl restart teleport`},
		{name: "the agent is killed at once", on: "agent", before: `systemctl kill --signal=KILL teleport`, undo: ":"},
		{name: "the unit folder is gone", on: "/usr/local/lib/systemd/system", before: unitsGone, undo: unitsBack},
		{name: "the link folder is gone", on: "$LINKS", before: linksGone, undo: linksBack},
		{name: "the programs' folder is gone", on: "$PROGRAMS", before: programsGone, undo: programsBack},
		{name: "the agent is wanted by what is not there", on: "/etc/systemd/system/multi-user.target.wants/teleport.service",
			before: `ln -sfn /nonexistent/teleport.service /etc/systemd/system/multi-user.target.wants/teleport.service; systemctl daemon-reload`,
			undo:   `systemctl --quiet reenable teleport || :; systemctl start teleport || :`},
	}...)
}

// closedToTheAgentsUser has root close what the agent's next process needs, of an agent with a user of its own. The process that runs
// has all of it open.
func closedToTheAgentsUser() (all []action) {
	const (
		rootsAlone = `cp -a --attributes-only P $ASIDE/mode; chown root: P; chmod 600 P`
		opened     = `[ ! -e P ] || { chown --reference=$ASIDE/mode P; chmod --reference=$ASIDE/mode P; }; `
	)
	for _, c := range []struct {
		name, on, before, undo string
		live                   bool
	}{
		{name: "the link folder is closed", on: "$LINKS", before: `chmod 700 P`, undo: `chmod 755 P; `},
		{name: "the programs are closed", on: "$PROGRAMS", before: `chmod 700 P`, undo: `chmod 755 P; `},
		// A boot opens it (systemd's home.conf of tmpfiles).
		{name: "a folder above the data is closed", on: "/srv", before: `chmod 700 P`, undo: `chmod 755 P; `, live: true},
		{name: "teleport.yaml is closed", on: "/etc/teleport.yaml", before: rootsAlone, undo: opened},
		// As root's own sqlite3 leaves it that writes a dump back.
		{name: "the database is closed", on: "$DATA/proc/sqlite.db", before: rootsAlone + `; [ ! -e P-wal ] || { chown root: P-wal; chmod 600 P-wal; }`,
			undo: opened + `for f in P-wal P-shm; do [ ! -e $f ] || chown --reference=P $f; done; `},
	} {
		all = append(all, action{name: c.name, on: c.on, own: true, live: c.live, before: fill(c.before, "P", c.on), undo: fill(c.undo, "P", c.on) + `systemctl start teleport || :`})
	}
	return all
}
