package installer

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/ospackage"
)

// next is what is known, before an uninstall, of what a person may want in place of the updater.
type next struct {
	i      *Installer
	sight  transaction.Sight
	before transaction.AgentBefore
}

func (i *Installer) next(ctx context.Context, sight transaction.Sight) next {
	return next{i, sight, i.Machine.AgentBefore(ctx)}
}

// lines says what to type after an uninstall. No command puts an older program on today's tables: where the version differs, the backup
// that it can read is restored first.
func (n next) lines(ctx context.Context, u transaction.Uninstall) []string {
	if u.WithAgent || u.Config.Spec.ActiveVersion == "" || len(u.Programs) == 0 {
		return nil
	}
	unit, systemd := quoted(n.i.Machine.Host.Paths.AgentUnit()), n.sight.State != state.AgentUnknown
	remove := "rm -f " + quoted(u.Unit)
	for _, program := range u.Programs {
		remove += " " + quoted(program)
	}
	reload := []string{"systemctl daemon-reload"}
	if n.sight.UnitFileState == "enabled" {
		reload = append(reload, "systemctl reenable "+unit)
	}
	if n.sight.State.Wanted() {
		reload = append(reload, "systemctl restart "+unit)
	}
	if !systemd {
		reload = nil
	}
	lines := []string{"To go on, type one of these commands as root. Each first removes the plain files, which outrank a package's."}
	add := func(what string, commands ...string) {
		lines = append(lines, "  "+what+": "+strings.Join(commands, " && "))
	}
	if install, restore := n.packages(ctx, u.Config); install != nil {
		add("the agent's package", slices.Concat(install[:1], restore, []string{remove}, install[1:], reload)...)
	}
	if program := n.i.Machine.Host.OthersProgram(); n.before.Replaced && program != "" {
		add("the updater of Teleport's own", remove, quoted(program)+" enable --proxy "+quoted(u.Config.Spec.Proxy))
	}
	if systemd {
		add("no agent", "systemctl disable --now "+unit, remove, "systemctl daemon-reload")
	} else {
		add("no agent", remove)
	}
	return lines
}

// editionPackages are the packages of Teleport by edition.
var editionPackages = map[version.Edition]string{
	version.OSS: "teleport", version.Enterprise: "teleport-ent", version.FIPS: "teleport-ent-fips",
}

// packages returns the commands that fetch and install the agent's package, and the commands between them that restore a database that the
// package's agent can read. There are none if the host has no manager of packages.
func (n next) packages(ctx context.Context, c state.Config) (install, restore []string) {
	active := c.Active()
	wanted := n.before.Packages
	if len(wanted) == 0 {
		wanted = []state.Package{{Kind: kindOfHost(), Name: editionPackages[active.Edition], Version: active.Version}}
	}
	older := slices.ContainsFunc(wanted, func(p state.Package) bool { return isOlder(p, active.Version) })
	if older {
		var known bool
		if restore, known = n.restore(ctx); !known {
			wanted = slices.Clone(wanted)
			for at := range wanted {
				wanted[at].Version = active.Version // whose tables the database has
			}
		}
	}
	m, ok := managerOf(wanted[0].Kind)
	if !ok {
		return nil, nil
	}
	var names []string
	for _, p := range wanted {
		names = append(names, p.Name+m.between+p.Version)
	}
	packages := " " + strings.Join(names, " ")
	return []string{m.install + " " + m.download + packages, m.install + packages}, restore
}

// restore returns the commands that restore a backup with the tables of the agent before the first enable, and no commands if today's
// database has these tables. known is false if there is no such backup.
func (n next) restore(ctx context.Context) (commands []string, known bool) {
	dir, same := n.i.Machine.BackupOf(ctx, n.before)
	if same {
		return nil, true
	}
	database, err := n.i.Machine.Host.Database()
	if dir == "" || err != nil {
		return nil, false
	}
	if n.sight.State != state.AgentUnknown {
		commands = append(commands, "systemctl stop "+quoted(n.i.Machine.Host.Paths.AgentUnit()))
	}
	remove := "rm -f"
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		remove += " " + quoted(database+suffix)
	}
	return append(commands, "cp "+quoted(filepath.Join(dir, "sqlite.db"))+" "+quoted(database), remove), true
}

// isOlder reports whether a package is older than a version, or may be.
func isOlder(p state.Package, active string) bool {
	release := p.Version
	if n := strings.LastIndex(release, "-"); n > 0 && strings.Trim(release[n+1:], "0123456789") == "" {
		release = release[:n] // the packager's
	}
	parsed, err := version.Parse(release)
	return err != nil || version.Compare(parsed, active) < 0
}

// kindOfHost returns the kind of packages that the host has.
func kindOfHost() ospackage.Kind {
	if _, err := exec.LookPath("dpkg"); err == nil {
		return ospackage.Deb
	}
	return ospackage.RPM
}

// manager is a program that installs packages from repositories.
type manager struct {
	install  string // its command
	download string // the option that only fetches the packages
	between  string // what is between a package's name and its version
}

// managers are the programs by the kind of package, the preferred ones first.
var managers = map[ospackage.Kind][]manager{
	ospackage.Deb: {{"apt-get install -y", "--download-only", "="}},
	ospackage.RPM: {
		{"dnf install -y", "--downloadonly", "-"},
		{"yum install -y", "--downloadonly", "-"},
		{"zypper --non-interactive install --oldpackage", "--download-only", "="},
	},
}

// managerOf returns the manager that this host has for packages of a kind.
func managerOf(kind ospackage.Kind) (m manager, ok bool) {
	for _, m := range managers[kind] {
		program, _, _ := strings.Cut(m.install, " ")
		if _, err := exec.LookPath(program); err == nil {
			return m, true
		}
	}
	return m, false
}
