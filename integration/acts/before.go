package acts

import "strings"

// actsBefore are what somebody has done to a host before a transaction begins: to units, to
// the updater itself, to files and mounts, and what was put back from copies.
func actsBefore() (all []action) {
	all = append(all, toTheAgentsUnit()...)
	all = append(all, withOtherUnits()...)
	all = append(all, toTheUpdatersUnits()...)
	all = append(all, withoutUnitFiles()...)
	all = append(all, toTheUpdater()...)
	all = append(all, toMountsAndFiles()...)
	all = append(all, withLayouts()...)
	all = append(all, fromCopies()...)
	all = append(all, byPeople()...)
	for n := range all {
		if all[n].do == "" {
			all[n].do = ":"
		}
		all[n].name = beforePrefix + all[n].name
	}
	return all
}

// beforePrefix is in the name of each act before: many could happen in the middle, too.
const beforePrefix = "before: "

// dropIn has a unit say something more. Who takes it away again starts the agent if it
// does not run.
func dropIn(unit, name, text string) action {
	file := "/etc/systemd/system/" + unit + ".d/95-other.conf"
	return action{
		name:   name,
		on:     file,
		before: "mkdir -p " + file[:strings.LastIndex(file, "/")] + "; printf '" + text + "' >" + file + "; systemctl daemon-reload",
		undo:   "rm -f " + file + "; systemctl daemon-reload; systemctl reset-failed " + unit + " 2>/dev/null || :; systemctl start teleport || :",
	}
}

// toTheAgentsUnit has the administrator's drop-in change what systemd does with the agent.
func toTheAgentsUnit() (all []action) {
	for _, d := range [][2]string{
		{"a condition does not hold", `[Unit]\nConditionPathExists=/nonexistent\n`},
		{"a variable of systemd's is not there", `[Unit]\nConditionEnvironment=NO_SUCH_VARIABLE\n`},
		{"an assertion does not hold", `[Unit]\nAssertPathExists=/nonexistent\n`},
		{"the agent may not be started by hand", `[Unit]\nRefuseManualStart=yes\n`},
		{unstoppable, `[Unit]\nRefuseManualStop=yes\n`},
		{"there is one start an hour", `[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n`},
		{"starts take three seconds", `[Service]\nExecStartPre=/bin/sleep 3\n`},
		{"the agent is not restarted", `[Service]\nRestart=no\n`},
		{"the agent is always restarted", `[Service]\nRestart=always\n`},
		{"stops leave processes", `[Service]\nKillMode=process\n`},
		{"stops kill nobody", `[Service]\nKillMode=process\nSendSIGKILL=no\nTimeoutStopSec=2\n`},
		{"stops have a second", `[Service]\nTimeoutStopSec=1\n`},
		{"the unit is of type notify", `[Service]\nType=notify\nNotifyAccess=all\n`},
		{"the unit is of type exec", `[Service]\nType=exec\n`},
		{"the system is protected", `[Service]\nProtectSystem=strict\nReadWritePaths=/var/lib/teleport -/srv /run\nPrivateTmp=yes\n`},
		{"the programs are hidden", `[Service]\nTemporaryFileSystem=/opt\n`},
		{"there is no reload", `[Service]\nExecReload=\n`},
		{"reloads fail", `[Service]\nExecReload=\nExecReload=/bin/false\n`},
		{"reloads take three seconds", `[Service]\nExecReload=/bin/sleep 3\n`},
		{"what comes after a stop fails", `[Service]\nExecStopPost=/bin/false\n`},
		{"what comes before a start fails", `[Service]\nExecStartPre=/bin/false\n`},
		{"the folder to work in is not there", `[Service]\nWorkingDirectory=-/nonexistent\n`},
		{"the user is not there", `[Service]\nUser=nobody-such\n`},
		{"a file of variables is not there", `[Service]\nEnvironmentFile=/nonexistent\n`},
		{"the agent has variables", `[Service]\nEnvironment=OTHER=1\n`},
		{"the agent has a slice", `[Service]\nSlice=other.slice\n`},
		{"the agent may have no memory", `[Service]\nLimitAS=4M\n`},
		{"the folder to work in has gone", `[Service]\nWorkingDirectory=/nonexistent\n`},
		{"the group is not there", `[Service]\nGroup=nobody-such\n`},
		{"another group is not there", `[Service]\nSupplementaryGroups=nobody-such\n`},
		{"a folder is no mount", `[Unit]\nConditionPathIsMountPoint=/srv\n`},
		{"a unit that the agent requires is not there", `[Unit]\nRequires=nonexistent.service\n`},
		{"a unit that has to run does not", `[Unit]\nRequisite=systemd-tmpfiles-clean.service\nAfter=systemd-tmpfiles-clean.service\n`},
		{"the agent's unit is wrong", `[Service]\nType=oneshot\nRestart=always\n`},
	} {
		all = append(all, dropIn("teleport.service", d[0], d[1]))
	}
	for _, d := range [][2]string{
		{"a folder to write has gone", `[Service]\nReadWritePaths=/srv/gone\n`},
		{"a folder that is bound has gone", `[Service]\nBindPaths=/srv/gone\n`},
		{"a credential has gone", `[Service]\nLoadCredential=token:/srv/gone\n`},
		{"a command before has gone", `[Service]\nExecStartPre=/srv/gone\n`},
	} {
		all = append(all, dropIn("teleport.service", d[0], d[1]))
	}
	return append(all, unread("a condition does not hold that nobody has read", `[Unit]\nConditionPathExists=/nonexistent\n`),
		unread("the user is not there, and nobody has read that", `[Service]\nUser=nobody-such\n`))
}

// unread is a drop-in of the agent's that systemd has not read when the transaction begins.
func unread(name, text string) action {
	a := dropIn("teleport.service", name, text)
	a.before = strings.TrimSuffix(a.before, "; systemctl daemon-reload")
	return a
}

// otherUnit adds a unit that has to do with the agent.
func otherUnit(name, unit, text string) action {
	return action{
		name: name, on: unit,
		before: "printf '" + text + "' >/etc/systemd/system/" + unit + "; systemctl daemon-reload; systemctl start --no-block " + unit +
			"; for i in $(seq 100); do systemctl show -p ActiveState --value " + unit + " | grep -q activ && break; sleep 0.02; done",
		undo: "systemctl stop " + unit + " || :; rm -f /etc/systemd/system/" + unit + "; systemctl daemon-reload; systemctl start teleport || :",
	}
}

// withOtherUnits are units of an administrator's that need the agent, keep it waiting, or
// start it.
func withOtherUnits() (all []action) {
	for _, d := range []string{"Requires", "BindsTo", "PartOf"} {
		all = append(all, otherUnit("a unit has "+d+"= on the agent", "other-"+strings.ToLower(d)+".service",
			"[Unit]\\n"+d+"=teleport.service\\nAfter=teleport.service\\n[Service]\\nExecStart=/bin/sleep infinity\\n"))
	}
	// More than a job of the agent's waits for what nobody can name.
	stopsSlowly := otherUnit("a unit that goes down with the agent stops slowly", "other-stops.service",
		`[Unit]\nPartOf=teleport.service\nAfter=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep 18\n`)
	stopsSlowly.undo = "systemctl kill --signal=KILL other-stops || :; " + stopsSlowly.undo
	startsSlowly := dropIn("teleport.service", "the agent needs a unit that starts slowly", `[Unit]\nRequires=other-needed.service\nAfter=other-needed.service\n`)
	startsSlowly.before = `printf '[Service]\nType=oneshot\nExecStart=/bin/sleep 18\n' >/etc/systemd/system/other-needed.service; ` + startsSlowly.before
	startsSlowly.undo = "rm -f /etc/systemd/system/other-needed.service; systemctl kill other-needed || :; " + startsSlowly.undo
	waits := otherUnit("the agent comes after a unit that still activates", "other-slow.service",
		`[Unit]\nBefore=teleport.service\n[Service]\nType=oneshot\nExecStart=/bin/sleep 12\n`)
	waits.live = true
	upholds := otherUnit("a unit upholds the agent", "other-upholds.service", `[Unit]\nUpholds=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\n`)
	path := otherUnit("a path unit starts the agent", "other-path.path", `[Path]\nPathExists=/etc/teleport.yaml\nUnit=teleport.service\n`)
	conflicts := otherUnit("a unit conflicts with the agent and does not run", "other-conflicts.service", `[Unit]\nConflicts=teleport.service\n[Service]\nType=oneshot\nExecStart=/bin/true\n`)
	fails := otherUnit("a unit that the agent requires fails", "other-fails.service", `[Service]\nType=oneshot\nExecStart=/bin/false\n`)
	with := dropIn("teleport.service", "", `[Unit]\nRequires=other-fails.service\nAfter=other-fails.service\n`)
	fails.before, fails.undo = fails.before+"; "+with.before, with.undo+"; "+fails.undo
	conflicts.before = strings.ReplaceAll(conflicts.before, "systemctl start --no-block", "systemctl show")
	return append(all, stopsSlowly, startsSlowly, waits, upholds, path, fails, conflicts)
}

// toTheUpdatersUnits is done to the timer, to its service, and to the recovery.
func toTheUpdatersUnits() (all []action) {
	const timer, service, recovery = "teleport-update.timer", "teleport-update.service", "teleport-update-recover.service"
	const variables = "/etc/default/teleport-update"
	const needed = "/etc/systemd/system/other-needed-by-runs.service"
	runsNeed := dropIn(service, "a unit that the timer's runs require fails", `[Unit]\nRequires=other-needed-by-runs.service\nAfter=other-needed-by-runs.service\n`)
	runsNeed.before = `printf '[Service]\nType=oneshot\nExecStart=/bin/false\n' >` + needed + "; " + runsNeed.before
	runsNeed.undo = "rm -f " + needed + "; " + runsNeed.undo
	all = []action{
		dropIn(service, "a condition skips the timer's runs", `[Unit]\nConditionPathExists=/nonexistent\n`),
		dropIn(service, "the timer's runs have no memory", `[Service]\nLimitAS=1M\n`),
		dropIn(service, "the timer's runs have another user", `[Service]\nUser=daemon\n`),
		dropIn(service, "the timer's runs may not look at processes", `[Service]\nCapabilityBoundingSet=~CAP_SYS_PTRACE\n`),
		dropIn(service, "the timer's runs may not write", `[Service]\nProtectSystem=strict\n`),
		dropIn(recovery, "a condition skips the recovery", `[Unit]\nConditionPathExists=/nonexistent\n`),
		dropIn(recovery, "the recovery has another user", `[Service]\nUser=daemon\n`),
		dropIn(recovery, "a command that fails comes before the recovery", `[Service]\nExecStartPre=/bin/false\n`),
		dropIn(recovery, "a command skips the recovery", `[Service]\nExecCondition=/bin/false\n`),
		dropIn(recovery, "a unit that the recovery requires is not there", `[Unit]\nRequires=nonexistent.service\n`),
		dropIn(recovery, "a program that fails is around the recovery", `[Service]\nExecStart=\nExecStart=/bin/false teleport-update recover --boot\n`),
		// systemd notes nothing of it in the service itself.
		runsNeed,
		{name: "variables of the updater's units mean nothing", on: variables, undo: "sed -i '/maybe$\\|nothing$/d' " + variables,
			before: `printf 'TELEPORT_UPDATE_DEBUG=maybe\nTELEPORT_UPDATE_DATA_DIR=/srv/nothing\nTELEPORT_UPDATE_LOG_FORMAT=nothing\n' >>` + variables},
	}
	for _, unit := range []string{timer, service, recovery} {
		all = append(all, action{name: unit + " is masked", on: unit, before: "systemctl --quiet mask " + unit,
			undo: fill(`systemctl --quiet unmask U; systemctl daemon-reload
				[ U = `+service+` ] || systemctl --quiet enable U; [ U != `+timer+` ] || systemctl start U`, "U", unit)})
	}
	return append(all,
		action{name: timer + " is disabled", on: timer, before: "systemctl --quiet disable --now " + timer, undo: "systemctl --quiet enable --now " + timer},
		action{name: timer + " is stopped", on: timer, before: "systemctl stop " + timer, undo: "systemctl start " + timer},
		action{name: recovery + " is disabled", on: recovery, before: "systemctl --quiet disable " + recovery, undo: "systemctl --quiet enable " + recovery},
	)
}

// withoutUnitFiles empties the file of a unit, as a full disk or a power cut does, or removes it, and systemd
// reads the units again. systemd takes an empty file for a mask.
func withoutUnitFiles() (all []action) {
	const undo = `[ -s P ] || cp -a $ASIDE/unit P; systemctl daemon-reload; systemctl start teleport teleport-update.timer || :`
	for _, unit := range []string{"teleport.service", "teleport-update.timer", "teleport-update.service", "teleport-update-recover.service"} {
		path := "/usr/local/lib/systemd/system/" + unit
		all = append(all,
			action{name: "the file of " + unit + " is emptied", on: path, before: fill(`cp -a P $ASIDE/unit; : >P; systemctl daemon-reload`, "P", path),
				undo: fill(undo, "P", path)},
			action{name: "the file of " + unit + " is gone", on: path, before: fill(`mv P $ASIDE/unit; systemctl daemon-reload`, "P", path),
				undo: fill(undo, "P", path)})
	}
	return all
}

// copyOf finds the updater's copy, which its own units execute.
const copyOf = `copy=$(systemctl show teleport-update-recover.service -p ExecStart | sed -n 's/^ExecStart={ path=\([^ ]*\) .*/\1/p'); `

// toTheUpdater is done to the copy that the units of the updater execute.
func toTheUpdater() []action {
	return []action{
		{name: "the updater's copy may not be executed", on: "copy", before: copyOf + `chmod 644 $copy`, undo: copyOf + `[ ! -e "$copy" ] || chmod 755 $copy`},
		{name: "the updater's copy is gone", on: "copy", before: copyOf + `mv $copy $ASIDE/copy`, undo: copyOf + `[ -e "$copy" ] || cp -a $ASIDE/copy $copy`},
		{name: "the updater's copy is emptied", on: "copy", before: copyOf + `cp -a $copy $ASIDE/copy; : >$copy`, undo: copyOf + `[ -s "$copy" ] || cp -a $ASIDE/copy $copy`},
		{name: "the updater's copy is on a mount without execution", on: "copy", live: true,
			before: copyOf + `d=$(dirname $copy); mount --bind $d $d; mount -o remount,bind,noexec $d`,
			undo:   copyOf + `d=$(dirname $copy); while grep -q " $d " /proc/mounts; do umount -l $d; done`},
	}
}

// toMountsAndFiles has folders mounted in another way, and files protected.
func toMountsAndFiles() (all []action) {
	for _, m := range [][3]string{
		{"the link folder is read-only", "$LINKS", "ro"},
		{"the unit folder is read-only", "/usr/local/lib/systemd/system", "ro"},
		{"the programs are read-only", "$PROGRAMS", "ro"},
		{"the store is read-only", "$STORE", "ro"},
		{"the programs may not be executed", "$PROGRAMS", "noexec"},
		{"the link folder is a mount", "$LINKS", "rw"},
		{"/usr/local is a mount", "/usr/local", "rw"},
	} {
		all = append(all, action{name: m[0], on: m[1], live: true, before: fill(`mount --bind D D; mount -o remount,bind,O D`, "D", m[1], "O", m[2]),
			undo: fill(`while grep -q " D " /proc/mounts; do umount -l D; done; systemctl reset-failed teleport 2>/dev/null || :; systemctl start teleport || :`, "D", m[1])})
	}
	for _, f := range [][2]string{{"the unit is immutable", "$UNIT"}, {"the link folder is immutable", "$LINKS"}, {"the programs are immutable", "$PROGRAMS"}} {
		all = append(all, action{name: f[0], on: f[1], before: "chattr +i " + f[1], undo: "chattr -i " + f[1] + " || :"})
	}
	return append(all,
		action{name: "the unit was edited and not read", on: "$UNIT", before: `echo "# edited" >>$UNIT`, undo: ":"},
		action{name: "the unit is a copy in etc", on: "etc", before: `cp $UNIT /etc/systemd/system/teleport.service; systemctl daemon-reload`,
			undo: `rm -f /etc/systemd/system/teleport.service; systemctl daemon-reload; systemctl start teleport || :`},
		action{name: "a unit in etc that nobody has read", on: "etc", before: `printf '[Service]\nExecStart=/bin/false\n' >/etc/systemd/system/teleport.service`,
			undo: outranks},
		action{name: "a mask that nobody has read", on: "etc", before: `ln -s /dev/null /etc/systemd/system/teleport.service`, undo: outranks},
		action{name: "the unit is a link in etc", on: "etc", before: `ln -s $UNIT /etc/systemd/system/teleport.service; systemctl daemon-reload`,
			undo: `rm -f /etc/systemd/system/teleport.service; systemctl daemon-reload; systemctl --quiet enable teleport || :; systemctl start teleport || :`},
		action{name: "the data are elsewhere by a drop-in", on: "/etc/systemd/system/teleport.service.d/95-other.conf", data: "/srv/moved",
			before: `systemctl stop teleport; mkdir -p /srv/moved; cp -a $DATA/proc $DATA/host_uuid /srv/moved/; mkdir -p /etc/systemd/system/teleport.service.d
				printf '[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --data-dir /srv/moved --pid-file=/run/teleport.pid\n' >/etc/systemd/system/teleport.service.d/95-other.conf
				` + startsAgain, undo: ":"},
		action{name: "the configuration is elsewhere by a drop-in", on: "/etc/systemd/system/teleport.service.d/95-other.conf", data: "/srv/moved",
			before: `systemctl stop teleport; mkdir -p /srv/moved /etc/systemd/system/teleport.service.d; cp -a $DATA/proc $DATA/host_uuid /srv/moved/
				sed 's|^teleport:|&\n  data_dir: /srv/moved|' /etc/teleport.yaml >/etc/teleport-node.yaml
				printf '[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --config /etc/teleport-node.yaml --pid-file=/run/teleport.pid\n' >/etc/systemd/system/teleport.service.d/95-other.conf
				` + startsAgain, undo: ":"},
	)
}

// outranks takes away a unit that ranks above the agent's own.
const outranks = `rm -f /etc/systemd/system/teleport.service; systemctl daemon-reload; systemctl reset-failed teleport 2>/dev/null || :
	systemctl --quiet enable teleport || :; systemctl start teleport || :`

// startsAgain starts an agent that was stopped, and waits until it serves.
const startsAgain = `rm -f $PIDFILE; systemctl daemon-reload; systemctl reset-failed teleport 2>/dev/null || :; systemctl start teleport
for i in $(seq 1000); do [ -s $PIDFILE ] && break; sleep 0.01; done; sleep 0.3
`

// fromCopies puts back what was kept somewhere else, or comes from another host.
func fromCopies() []action {
	const byHand = `mkdir -p /opt/other/1.1.0/bin; cp -L $PROGRAMS/1.1.0/bin/* /opt/other/1.1.0/bin/
		for l in teleport tsh tctl tbot; do ln -sfn /opt/other/1.1.0/bin/$l $LINKS/$l; done
		`
	// An older updater, and the first enable, leave no history.
	const records = `rm -f $STORE/history.json; cp -a $YESTERDAY/updates.yaml $YESTERDAY/history.json $STORE/ 2>/dev/null || cp -a $YESTERDAY/updates.yaml $STORE/
		`
	const links = `for l in teleport tsh tctl tbot; do ln -sfn $PROGRAMS/$OLD/bin/$l $LINKS/$l; done`
	// An agent that died of it comes back with the version whose database it has.
	const back = `systemctl --quiet is-active teleport || { $UPDATER pin 1.1.0; $UPDATER unpin; systemctl reset-failed teleport; systemctl restart teleport; }`
	return []action{
		{name: "the records of yesterday", on: "store", yesterday: true, before: records, undo: ":"},
		{name: "the records and links of yesterday", on: "store", yesterday: true, before: records + links, undo: back},
		{name: "the store and links of yesterday", on: "store", yesterday: true, before: `rm -rf $STORE; cp -a $YESTERDAY $STORE; ` + links, undo: back},
		{name: "a store of yesterday", on: "store", yesterday: true, before: `rm -rf $STORE; cp -a $YESTERDAY $STORE`, undo: ":"},
		{name: "updates.yaml of yesterday", on: "store", yesterday: true, before: `cp -a $YESTERDAY/updates.yaml $STORE/updates.yaml`, undo: ":"},
		{name: "links to a newer agent that was restarted", on: "links", elsewhere: "/opt/other", before: byHand + `systemctl stop teleport; ` + startsAgain, undo: ":"},
		{name: "links to a newer agent that was not restarted", on: "links", elsewhere: "/opt/other", before: byHand, undo: ":"},
		{name: "a newer agent is copied through the links", on: "$PROGRAMS/$OLD", exchanged: true, before: `systemctl stop teleport
			cp -a $PROGRAMS/$OLD/bin $ASIDE/bin; rm -r $PROGRAMS/$OLD/bin; mv $ASIDE/bin $PROGRAMS/$OLD/bin # its files are in those that a reset puts back, too
			for l in teleport tsh tctl tbot; do cp $PROGRAMS/1.1.0/bin/$l $LINKS/$l; done
			` + startsAgain, undo: ":"},
		{name: "another host's identity", on: "host_uuid", before: `echo 11111111-2222-4333-8444-555555555555 >$DATA/host_uuid
			head -c16 /dev/urandom | od -An -tx1 | tr -d ' \n' >/etc/machine-id 2>/dev/null || :`, undo: ":"},
		{name: "the host joined again", on: "proc", before: `systemctl stop teleport; rm -rf $DATA/proc $DATA/host_uuid; ` + startsAgain, undo: ":", rowsGo: "who joins again begins with an empty database"},
		{name: "the backup of the old version is gone", on: "backup", before: `rm -rf $STORE/$OLD/backup`, undo: ":"},
		{name: "the record of the old version is gone", on: "$STORE/$OLD", before: `mv $STORE/$OLD $ASIDE/R`, undo: `[ ! -e $ASIDE/R ] || { rm -rf $STORE/$OLD; mv $ASIDE/R $STORE/$OLD; }`},
		{name: "the programs of the old version are gone", on: "$PROGRAMS/$OLD", before: `mv $PROGRAMS/$OLD $ASIDE/$OLD.P`,
			undo: `[ ! -e $ASIDE/$OLD.P ] || { rm -rf $PROGRAMS/$OLD; mv $ASIDE/$OLD.P $PROGRAMS/$OLD; }`},
		{name: "the data folder was given to another user", on: "store", before: `chown daemon: $DATA`, undo: `chown root: $DATA`},
		{name: "updates.yaml names another version", on: "store", before: `sed -i 's/^\( *active_version: \).*/\11.1.0/' $STORE/updates.yaml`,
			undo: `$UPDATER unpin 2>/dev/null || :; sed -i "s/^\( *active_version: \)1\.1\.0/\1$OLD/" $STORE/updates.yaml`},
		{name: "updates.yaml is gone", on: "store", before: `mv $STORE/updates.yaml $ASIDE/U`, undo: `[ -e $STORE/updates.yaml ] || mv $ASIDE/U $STORE/updates.yaml`},
		{name: "the links are gone", on: "links", before: `rm -f $LINKS/teleport $LINKS/tsh $LINKS/tctl $LINKS/tbot`, undo: ":"},
	}
}

// byPeople are what an administrator wants of the host.
func byPeople() []action {
	return []action{
		{name: "the agent is stopped", on: "agent", before: `systemctl stop teleport`, undo: `systemctl start teleport`, live: true},
		{name: "the agent is disabled", on: "agent", before: `systemctl --quiet disable teleport`, undo: `systemctl --quiet enable teleport; systemctl start teleport`},
		{name: "the agent is masked", on: "agent", before: `systemctl --quiet mask teleport`, undo: `systemctl unmask teleport; systemctl start teleport || :`},
		{name: "the agent's processes stand still", on: "agent", live: true, before: `systemctl kill --signal=STOP teleport`, undo: `systemctl kill --signal=CONT teleport || :; sleep 0.5`},
		{name: "the host is pinned", on: "wish", before: `$UPDATER pin 2>/dev/null`, undo: `$UPDATER unpin`},
		{name: "updates are disabled", on: "wish", before: `$UPDATER disable 2>/dev/null`, undo: `$UPDATER enable 2>/dev/null || : # find may want a version that fails`},
		{name: "presets disable everything", on: "presets", before: `mkdir -p /etc/systemd/system-preset; echo 'disable *' >/etc/systemd/system-preset/00-other.preset
			systemctl --quiet preset teleport teleport-update.timer teleport-update-recover.service 2>/dev/null || :`,
			undo: `rm -f /etc/systemd/system-preset/00-other.preset
				systemctl --quiet enable teleport teleport-update.timer teleport-update-recover.service; systemctl start teleport teleport-update.timer`},
	}
}
