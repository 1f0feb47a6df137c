package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"teleport-update/backup"
)

// Plan is what a command would do. Making it changes nothing.
type Plan struct {
	Nothing  string   `json:"nothing,omitempty"` // why nothing would happen
	From     string   `json:"from,omitempty"`
	To       string   `json:"to,omitempty"`
	Download []string `json:"download,omitempty"` // where from; empty when the version is on disk
	Database string   `json:"database,omitempty"`
	Backup   int64    `json:"backup_bytes,omitempty"`
	Free     int64    `json:"free_bytes,omitempty"`
	Agent    string   `json:"agent,omitempty"`
	Refused  string   `json:"refused,omitempty"` // why it would be refused
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
		return Plan{}, err
	}
	d := decide(question{Spec: spec, Status: c.Status, Answer: answer, Now: opts.Now, Time: i.Now()})
	if d.Action == doNothing {
		return Plan{Nothing: d.Reason}, nil
	}
	kind := switchUpdate
	if d.Downgrade {
		kind = switchDowngrade
	}
	req := SwitchRequest{Kind: kind, From: c.activeTarget(), To: release{Version: d.Target.Version, Edition: d.Target.Edition}, SkipBackup: opts.SkipBackup}
	sources, err := templates(spec.URLTemplates)
	if err != nil {
		return Plan{}, err
	}
	var urls []string
	for _, s := range sources {
		u, err := s.URL(d.Target)
		if err != nil {
			return Plan{}, err
		}
		urls = append(urls, u.Redacted())
	}
	return i.plan(ctx, c, req, urls)
}

func (i *Installer) plan(ctx context.Context, c Config, req SwitchRequest, urls []string) (Plan, error) {
	to := target{Version: req.To.Version, Edition: req.To.Edition}
	p := Plan{From: describe(req.From.Version, req.From.Edition), To: req.To.String()}
	if _, ok, err := i.store().Lookup(to); err != nil {
		return p, err
	} else if !ok {
		p.Download = urls
	}
	p.Free = freeBytes(i.Paths.DataDir)

	db, err := i.planDatabase(ctx, c, req)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		p.Refused = refused.Reason
		return p, nil
	case err != nil:
		return p, err
	}
	switch db.Plan {
	case keepDatabase:
		p.Database = "left as it is"
	case backupDatabase:
		p.Database = "backed up to " + db.Dir + ", then it goes on with the new version"
	case restoreDatabase:
		p.Database = fmt.Sprintf("backed up to %s; then the one that version %s had is restored", db.Dir, to.Version)
	}
	if db.Plan != keepDatabase {
		if p.Backup, err = backup.Size(db.Path); err != nil {
			return p, err
		}
	}
	conn, err := i.dial(ctx)
	if err != nil {
		return p, err
	}
	if conn == nil {
		p.Agent = "not restarted: systemd is not running"
		return p, nil
	}
	defer conn.Close()
	if err := i.checkUnit(ctx, conn); errors.As(err, &refused) {
		p.Refused = refused.Reason
		return p, nil
	} else if err != nil {
		return p, err
	}
	u, err := conn.Unit(ctx, AgentUnit)
	if err != nil {
		return p, err
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
	return p, nil
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
	line("From", p.From)
	line("To", p.To)
	if len(p.Download) > 0 {
		line("Download", strings.Join(p.Download, ", else "))
	} else {
		line("Download", "none, the version is on disk")
	}
	line("Space", fmt.Sprintf("%s free, %s for the database", megabytes(p.Free), megabytes(p.Backup)))
	line("Database", p.Database)
	line("Agent", p.Agent)
	line("Refused", p.Refused)
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+999_999)/1_000_000) }
