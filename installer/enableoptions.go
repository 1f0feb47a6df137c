package installer

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/trust"
	"teleport-update/internal/webclient"
)

// EnableOptions are the flags of enable. An empty field keeps its value from updates.yaml, or takes it from the agent's own configuration.
type EnableOptions struct {
	Proxy          string
	Group          string
	Templates      []string
	CAFile         string
	Settings       []state.Given // by flags, in the order of the help
	AllowDowngrade bool
	// AllowAuthServer takes over a host that runs servers of the cluster itself.
	AllowAuthServer bool
	// AllowProxyConflict asks another proxy than the one that the agent's configuration names.
	AllowProxyConflict bool
	ReplaceUpdater     bool   // take the host over from the updater that it has
	TextfileDir        string // where node_exporter reads metrics
	TokenFile          string // holds the join token of an agent that has not joined yet
	// ProgramsDir is where the programs of versions go on a host that has none yet.
	ProgramsDir string
	// ReportTokenFile holds the join token of a find server that takes reports.
	ReportTokenFile string
	// Minimum goes into the policy of this host, and ReleaseKeys, files, into its keys. Both stay
	// if enable fails.
	Minimum     string
	ReleaseKeys []string
}

func (o EnableOptions) apply(s state.Spec) (state.Spec, error) {
	s.Proxy = cmp.Or(o.Proxy, s.Proxy)
	s.Group = cmp.Or(o.Group, s.Group)
	s.CAFile = cmp.Or(o.CAFile, s.CAFile)
	s.TextfileDir = cmp.Or(o.TextfileDir, s.TextfileDir)
	if len(o.Templates) > 0 {
		s.URLTemplates = o.Templates
	}
	for _, g := range o.Settings {
		if err := g.Set(&s, g.Text); err != nil {
			return s, fmt.Errorf("--%s: %w", g.Flag, err)
		}
	}
	return s, nil
}

// command returns the command line that gives these options on a host with these places, without secrets. A host without a successful
// enable has recorded none of its places: a command without them would be for another host.
func (o EnableOptions) command(p state.Paths) string {
	words := append([]string{"teleport-update"}, placesOf(p)...)
	words = append(words, "enable")
	add := func(flag, value string) {
		if value != "" {
			words = append(words, "--"+flag, quoted(webclient.Redact(value)))
		}
	}
	add("proxy", o.Proxy)
	add("group", o.Group)
	for _, t := range o.Templates {
		add("template", t)
	}
	add("ca-file", o.CAFile)
	for _, g := range o.Settings {
		if g.Plain {
			words = append(words, "--"+g.Flag+"="+g.Text)
		} else {
			add(g.Flag, g.Text)
		}
	}
	add("textfile-dir", o.TextfileDir)
	add("token-file", o.TokenFile)
	add("report-token-file", o.ReportTokenFile)
	add("programs-dir", o.ProgramsDir)
	add("minimum", o.Minimum)
	for _, key := range o.ReleaseKeys {
		add("release-key", key)
	}
	if o.AllowDowngrade {
		words = append(words, "--allow-downgrade")
	}
	if o.AllowAuthServer {
		words = append(words, "--allow-auth-server")
	}
	if o.AllowProxyConflict {
		words = append(words, "--allow-proxy-conflict")
	}
	if o.ReplaceUpdater {
		words = append(words, "--replace-updater")
	}
	return strings.Join(words, " ")
}

// placesOf returns the global flags that lead a command to the places of a host, leaving out the usual places.
func placesOf(p state.Paths) (words []string) {
	usual := state.DefaultPaths()
	for _, place := range []struct{ flag, now, usual string }{
		{"data-dir", p.DataDir, usual.DataDir},
		{"link-dir", p.LinkDir, usual.LinkDir},
		{"unit-dir", p.UnitDir, usual.UnitDir},
		{"agent-config", p.AgentConfig, usual.AgentConfig},
	} {
		if place.now != place.usual {
			words = append(words, "--"+place.flag, quoted(place.now))
		}
	}
	return words
}

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	plain := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return letter || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// runAgain is the advice after a command that failed before anything was changed. An advice that names the whole command replaces it.
const runAgain = "remove the cause, then run the command again"

// saveFirstEnable records for status that a first enable failed, and what to type again: nothing else keeps its options, no timer tries it
// again, and nobody reads cloud-init's log. It writes updates.yaml, with updates off, also if the enable failed before it had a version: as
// when find was not reached. It leaves a host as it is if the enable was refused, because that person has read why, or if the enable failed
// before it had the lock.
func (i *Installer) saveFirstEnable(ctx context.Context, c state.Config, opts EnableOptions, failed error) {
	news := c.Status.FirstEnable != nil
	if failed != nil {
		news = c.Spec.ActiveVersion == "" && isNewsOf(i.Machine.Host, failed)
	}
	if !news {
		return
	}
	err := changeStatus(ctx, i.Machine, func(c *state.Config) {
		c.Status.FirstEnable = nil
		if failed != nil && c.Spec.ActiveVersion == "" {
			c.Status.FirstEnable = &state.FirstEnable{Time: i.Machine.Timestamp(), Command: opts.command(i.Machine.Host.Paths),
				Error: strings.TrimSuffix(causeOf(failed, c.Status.LastUpdate), ": "+runAgain)}
		}
	})
	if err != nil {
		i.Machine.Host.Log.Debug("how the first enable ended could not be recorded for status", "error", err)
	}
}

// causeOf returns the cause of an error: a transaction that ended in a process of its own wrote down why.
func causeOf(failed error, last *state.LastUpdate) string {
	if failure.Is[*transaction.ExitError](failed) && last != nil && last.Error != "" {
		return last.Error
	}
	return failed.Error()
}

// isNewsOf reports whether the failure of a first enable is recorded. Without an updates.yaml, it is recorded only if no enable ever
// succeeded on the host: if the file was lost, the next command relies on its absence.
func isNewsOf(h *host.Host, failed error) bool {
	if failure.Is[*failure.RefusedError](failed) || failure.Is[*state.BusyError](failed) {
		return false
	}
	if host.Exists(h.Paths.Config()) {
		return true
	}
	return host.Exists(h.Paths.Versions()) && trust.Path(h.Paths.Versions()) == nil && h.CheckNeverEnabled() == nil
}
