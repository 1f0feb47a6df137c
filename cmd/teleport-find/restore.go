package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
	"teleport-update/find/store/postgres"
)

func restoreCommand() *cli.Command {
	return &cli.Command{
		Name:  "restore",
		Usage: "put a backup of the store back, while no server runs",
		UsageText: "teleport-find restore FILE [--store FILE] [--store-password-file FILE] [--damaged] [--reason TEXT] " +
			"[--dry-run] [-o table|json|yaml]",
		Description: `Stop the servers that use the store first, and start them afterwards. The backup is checked before anything is
changed, takes the place of the store in one step, and the store of before is kept beside it. A database of
PostgreSQL must be empty: it takes the whole backup, or after an error nothing.

A backup does not know what has happened since: which hosts have updated, which groups were halted. So updates are
suspended, if they were enabled, and no host is told to update until somebody has looked at "teleport-find status"
and says "teleport-find mode enabled". Tokens are those of the backup: one that was revoked since is valid again.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			storeFlag(), passwordFileFlag("TELEPORT_FIND_STORE_PASSWORD_FILE"),
			&cli.BoolFlag{Name: "damaged", Usage: "replace a store that cannot be read, or is gone; make sure yourself that no server uses it"},
			&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the history keeps"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would change, and change nothing"},
			outputFlag("table"),
		},
		Action: func(c *cli.Context) error {
			file, err := oneWord(c, "a file that backup has made")
			if err != nil {
				return err
			}
			var made *prepared
			options := store.RestoreOptions{
				Path: c.String("store"), File: file, Damaged: c.Bool("damaged"), Now: now(), Keep: decides,
				Prepare: func(ctx context.Context, s store.Store, from store.Facts) (err error) {
					made, err = prepareRestored(ctx, s, from, c.String("reason"))
					return err
				},
			}
			var r store.Restoration
			progress := watch(c, "checking and restoring the backup", fileTime(file))
			switch {
			case postgres.IsURL(options.Path):
				r, err = restoreInto(c, options)
			case !c.Bool("dry-run"):
				r, err = store.Restore(c.Context, options)
			default:
				r, err = foreseeRestoration(c, file)
			}
			progress.End()
			if err != nil {
				return err
			}
			if made == nil {
				if made, err = readRestored(r.From); err != nil {
					return err
				}
			}
			return printRestored(c, r, made)
		},
	}
}

// restoreInto restores into an empty database. A dry run finds out whether the database is empty.
func restoreInto(c *cli.Context, o store.RestoreOptions) (r store.Restoration, err error) {
	if o.Damaged {
		return r, usageErrorf("--damaged is for a file: a database that is restored must be empty")
	}
	to, err := openStore(c.Context, o.Path, c.String("store-password-file"))
	if err != nil {
		return r, err
	}
	defer to.Close()
	if !c.Bool("dry-run") {
		return store.RestoreInto(c.Context, to, o)
	}
	if r.From, err = store.Inspect(c.Context, o.File, decides); err != nil {
		return r, err
	}
	at, err := to.Scan(c.Context, "", func(store.Item) bool { return false })
	if err == nil && at != store.None {
		err = store.ErrNotEmpty
	}
	return r, err
}

// decides reports whether a restoration lists an item.
func decides(key string) bool {
	return key == rollout.KindConfig || key == rollout.KindVersion || key == rollout.KindRollout ||
		strings.HasPrefix(key, hostTokens) || strings.HasPrefix(key, accessTokens)
}

// The prefixes of tokens' keys.
const hostTokens, accessTokens = "agents/token/", "access/"

// prepared is the content of a backup that matters, after the changes to it.
type prepared struct {
	rollout   *rollout.Rollout
	suspended bool
	config    *rollout.Config
}

// readRestored finds the configuration and the rollout, and whether updates have to be suspended.
func readRestored(from store.Facts) (*prepared, error) {
	p := &prepared{}
	enabled := false
	for _, item := range from.Items {
		if !strings.HasPrefix(item.Key, "autoupdate_") {
			continue
		}
		list, err := rollout.Parse(item.Value)
		if err != nil {
			return nil, fmt.Errorf("%s in the backup: %w", item.Key, err)
		}
		for _, resource := range list {
			switch r := resource.(type) {
			case *rollout.Config:
				p.config = r
				enabled = enabled || r.Spec.Agents.Mode == rollout.Enabled
			case *rollout.Version:
				enabled = enabled || r.Spec.Agents.Mode == rollout.Enabled
			case *rollout.Rollout:
				p.rollout = r
				enabled = enabled || r.Spec.Mode == rollout.Enabled
			}
		}
	}
	p.suspended = enabled && (p.config == nil || p.config.Spec.Agents.Mode != rollout.Disabled)
	return p, nil
}

// prepareRestored suspends updates in a restored store if they are enabled, and records that in the history.
func prepareRestored(ctx context.Context, s store.Store, from store.Facts, why string) (*prepared, error) {
	p, err := readRestored(from)
	if err != nil || !p.suspended {
		return p, err
	}
	if p.config == nil {
		p.config = rollout.NewConfig()
	}
	p.config.Spec.Agents.Mode = rollout.Suspended
	change := store.Change{Audit: store.Audit{Time: now(), Who: fmt.Sprintf("uid %d", os.Getuid()), What: "restore", Why: why}}
	set := func(key string, metadata *rollout.Metadata, resource rollout.Resource) error {
		metadata.Revision = 0
		value, err := rollout.JSON(resource)
		change.Writes = append(change.Writes, store.Write{Key: key, Value: value, Based: revisionOf(from, key)})
		return err
	}
	if err := set(rollout.KindConfig, &p.config.Metadata, p.config); err != nil {
		return nil, err
	}
	if p.rollout != nil && p.rollout.Spec.Mode == rollout.Enabled {
		p.rollout.Spec.Mode = rollout.Suspended // until the engine's next tick
		if err := set(rollout.KindRollout, &p.rollout.Metadata, p.rollout); err != nil {
			return nil, err
		}
	}
	_, err = s.Commit(ctx, change)
	return p, err
}

func revisionOf(f store.Facts, key string) store.Revision {
	for _, item := range f.Items {
		if item.Key == key {
			return item.Revision
		}
	}
	return store.None
}

// foreseeRestoration reads the store like a backup does, also while servers run.
func foreseeRestoration(c *cli.Context, file string) (r store.Restoration, err error) {
	if r.From, err = store.Inspect(c.Context, file, decides); err != nil {
		return r, err
	}
	dir, err := os.MkdirTemp("", "teleport-find-restore-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	r.Was, err = backUp(c, filepath.Join(dir, "store.db"), decides)
	if c.Bool("damaged") {
		err = nil
	}
	return r, err
}

// restored is the result of a restoration, for programs.
type restored struct {
	Restored  adminFacts   `json:"restored"`
	Replaced  *adminFacts  `json:"replaced,omitempty"`
	Kept      string       `json:"kept,omitempty"`
	Undone    []lastChange `json:"undone,omitempty"` // the newest first
	Suspended bool         `json:"suspended"`
	Rollout   string       `json:"rollout,omitempty"`
	// ValidAgain are tokens that the replaced store lacked, or had changed. Lost are
	// tokens that the backup lacks.
	ValidAgain []string `json:"valid_again,omitempty"`
	Lost       []string `json:"lost_tokens,omitempty"`
	DryRun     bool     `json:"dry_run,omitempty"`
}

func printRestored(c *cli.Context, r store.Restoration, p *prepared) error {
	out := restored{Restored: storeFacts(r.From), Kept: r.Kept, Suspended: p.suspended, DryRun: c.Bool("dry-run")}
	if r.Was.Revision != store.None {
		was := storeFacts(r.Was)
		out.Replaced = &was
		out.Undone = undone(r)
		out.ValidAgain = tokens(r.From, func(i store.Item) bool { return revisionOf(r.Was, i.Key) != i.Revision })
		out.Lost = tokens(r.Was, func(i store.Item) bool { return revisionOf(r.From, i.Key) == store.None })
	}
	if p.rollout != nil {
		out.Rollout = describeRollout(p.rollout)
	}
	if c.String("output") != "table" {
		return printValue(c, out)
	}
	return out.print(c.App.Writer)
}

// undone returns the records of the history that the backup lacks.
func undone(r store.Restoration) (list []lastChange) {
	for _, record := range r.Was.History {
		same := func(other store.HistoryEntry) bool {
			return other.To == record.To && other.From == record.From && other.Time.Equal(record.Time)
		}
		if !slices.ContainsFunc(r.From.History, same) {
			list = append(list, lastChange{record.Time, record.Who, record.What})
		}
	}
	return list
}

// tokens returns the names of tokens that meet a condition.
func tokens(f store.Facts, which func(store.Item) bool) (list []string) {
	for _, item := range f.Items {
		name := cmp.Or(cut(item.Key, hostTokens, "token "), cut(item.Key, accessTokens, "access token "))
		if name != "" && which(item) {
			list = append(list, name)
		}
	}
	return list
}

func cut(key, prefix, word string) string {
	if name, ok := strings.CutPrefix(key, prefix); ok {
		return word + name
	}
	return ""
}

func describeRollout(r *rollout.Rollout) string {
	var groups []string
	for _, g := range r.Status.Groups {
		state := string(g.State)
		if g.Halted != nil {
			state += ", halted"
		}
		groups = append(groups, g.Name+" "+state)
	}
	text := string(r.Spec.TargetVersion) + " " + string(r.Status.State)
	if len(groups) > 0 {
		text += " (" + strings.Join(groups, ", ") + ")"
	}
	return text
}

// shownUndone is how many undone changes the text lists.
const shownUndone = 10

func (r restored) print(w io.Writer) error {
	verb := "restored"
	if r.DryRun {
		verb = "it would restore"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", verb, r.Restored)
	if r.Replaced != nil {
		fmt.Fprintf(&b, "in place of: %s\n", *r.Replaced)
	}
	if r.Kept != "" {
		fmt.Fprintf(&b, "the store of before: %s\n", r.Kept)
	}
	for i, change := range r.Undone {
		if i == shownUndone {
			fmt.Fprintf(&b, "undone: %d more\n", len(r.Undone)-i)
			break
		}
		fmt.Fprintf(&b, "undone: %s %s %s\n", change.Time.UTC().Format(time.DateTime), change.Who, change.What)
	}
	if len(r.ValidAgain) > 0 {
		fmt.Fprintf(&b, "valid again, as in the backup (revoke what must not be): %s\n", strings.Join(r.ValidAgain, ", "))
	}
	if len(r.Lost) > 0 {
		fmt.Fprintf(&b, "not in the backup (make them again; their hosts have to join again): %s\n", strings.Join(r.Lost, ", "))
	}
	if r.Rollout != "" {
		fmt.Fprintf(&b, "the rollout, as of the backup: %s\n", r.Rollout)
	}
	if r.Suspended {
		b.WriteString("updates are suspended: start the server, look at \"teleport-find status\", " +
			"and let them go on with \"teleport-find mode enabled\"\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
