package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"golang.org/x/sys/unix"

	"teleport-update/backup"
	"teleport-update/versions"
)

// Plan is what a command would do. Making it changes nothing.
type Plan struct {
	Nothing  string // why nothing would happen; the rest is empty then
	From     string
	To       string
	Download string // where from; empty when the version is on disk
	Bytes    int64  // of the download; -1 when the server does not say
	Need     int64  // bytes that must be free beside the versions
	Free     int64  // bytes that are
	Database string
	Agent    string
	Refused  string // why it would be refused
}

// UpdatePlan is what Update would do now.
func (i *Installer) UpdatePlan(ctx context.Context, opts UpdateOptions) (Plan, error) {
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return Plan{}, err
	}
	switch {
	case exists(i.Paths.Journal()):
		return Plan{Nothing: "a switch was cut off and would be closed first"}, nil
	case !c.Spec.Enabled:
		return Plan{Nothing: "updates are disabled"}, nil
	case c.Spec.Pinned:
		return Plan{Nothing: "the host is pinned to " + c.Spec.ActiveVersion}, nil
	}
	spec := c.Spec
	if err := i.resolveProxy(&spec); err != nil {
		return Plan{}, err
	}
	answer, err := i.askQuietly(ctx, spec)
	if err != nil {
		return Plan{}, fmt.Errorf("%w; nothing was changed", err)
	}
	d := i.decide(ctx, c, spec, answer, opts.Now)
	if d.Action == doNothing {
		return Plan{Nothing: d.Reason}, nil
	}
	kind := switchUpdate
	if d.Downgrade {
		kind = switchDowngrade
	}
	return i.plan(ctx, c, spec, SwitchRequest{
		Kind: kind, From: c.activeTarget(), SkipBackup: opts.SkipBackup,
		To: release{Version: d.Target.Version, Edition: d.Target.Edition},
	})
}

// RollbackPlan is what Rollback would do.
func (i *Installer) RollbackPlan(ctx context.Context, opts RollbackOptions) (Plan, error) {
	c, err := loadConfig(i.Paths.Config())
	if err != nil {
		return Plan{}, err
	}
	if exists(i.Paths.Journal()) {
		return Plan{Nothing: "a switch was cut off and would be closed first"}, nil
	}
	t, err := rollbackTarget(c, opts.Version)
	if err != nil {
		return Plan{}, err
	}
	tree, ok, err := i.store().Lookup(t)
	if err != nil {
		return Plan{}, err
	}
	if !ok {
		return Plan{}, errNotKept(t)
	}
	return i.plan(ctx, c, c.Spec, SwitchRequest{Kind: switchRollback, From: c.activeTarget(), To: releaseOf(tree), Force: opts.Force})
}

// plan fills in what a switch would do, with the very checks that the switch
// makes.
func (i *Installer) plan(ctx context.Context, c Config, spec Spec, req SwitchRequest) (Plan, error) {
	p := Plan{From: describe(req.From.Version, req.From.Edition), To: req.To.String()}
	db, err := i.planDatabase(ctx, c, req)
	if err != nil {
		return p, p.refusedBy(err)
	}
	if err := i.planFetch(ctx, c, spec, req, db, &p); err != nil {
		return p, err
	}
	switch db.Plan {
	case keepDatabase:
		p.Database = "left as it is"
	case backupDatabase:
		p.Database = "backed up to " + db.Dir + "; the new version goes on with it"
	case restoreDatabase:
		p.Database = fmt.Sprintf("backed up to %s; then the one that version %s had is restored", db.Dir, req.To)
	}
	return p, i.planAgent(ctx, db, &p)
}

// planFetch says what would be downloaded, and what room that and the backup
// need.
func (i *Installer) planFetch(ctx context.Context, c Config, spec Spec, req SwitchRequest, db databaseRecord, p *Plan) error {
	to := target{Version: req.To.Version, Edition: req.To.Edition}
	if _, ok, err := i.store().Lookup(to); err != nil {
		return err
	} else if ok {
		if db.Plan != keepDatabase {
			if p.Need, err = backup.Size(db.Path); err != nil {
				return err
			}
		}
		p.Free = freeBytes(filepath.Dir(i.Paths.Config()))
		return nil
	}
	f, fetch, err := i.fetcher(c, to, spec)
	if err != nil {
		return err
	}
	e, err := f.Estimate(ctx, fetch)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	p.Download, p.Bytes, p.Need, p.Free = e.From, e.Download, e.Need, e.Free
	if e.Free < e.Need {
		p.Refused = (&versions.NoSpaceError{Path: i.Paths.Versions(), Need: e.Need, Free: e.Free}).Error()
	}
	return nil
}

// planAgent says what would happen to the agent.
func (i *Installer) planAgent(ctx context.Context, db databaseRecord, p *Plan) error {
	conn, err := i.dial(ctx)
	if err != nil {
		return err
	}
	if conn == nil {
		p.Agent = "not restarted: systemd is not running"
		return nil
	}
	defer conn.Close()
	if err := i.checkUnit(ctx, conn); err != nil {
		return p.refusedBy(err)
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return err
	}
	switch state := stateOf(u); {
	case !state.manageable():
		p.Agent = "not running, and left so"
	case db.Plan == restoreDatabase:
		p.Agent = "stopped and started"
	case state == agentFailing, !u.CanReload:
		p.Agent = "restarted"
	default:
		p.Agent = "reloaded"
	}
	return nil
}

// refusedBy makes a refusal part of the plan; other errors stay errors.
func (p *Plan) refusedBy(err error) error {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	p.Refused = refused.Reason
	return nil
}

func freeBytes(dir string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

// Text writes the plan for a person.
func (p Plan) Text(w io.Writer) {
	if p.Nothing != "" {
		fmt.Fprintf(w, "Nothing would be done: %s.\n", p.Nothing)
		return
	}
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name+":", value)
		}
	}
	line("From", nameOr(p.From, "none"))
	line("To", p.To)
	switch {
	case p.Refused != "":
		line("Refused", p.Refused)
		return
	case p.Download == "":
		line("Download", "none, the version is on disk")
	case p.Bytes < 0:
		line("Download", p.Download+", of unknown size")
	default:
		line("Download", fmt.Sprintf("%s, %s", p.Download, megabytes(p.Bytes)))
	}
	line("Space", fmt.Sprintf("%s needed, %s free", megabytes(p.Need), megabytes(p.Free)))
	line("Database", p.Database)
	line("Agent", p.Agent)
	fmt.Fprintln(w, "Nothing was changed.")
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+999_999)/1_000_000) }
