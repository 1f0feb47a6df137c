package installer

import (
	"context"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/webclient"
)

// noteFirstEnable has status say that a first enable failed, and what to type again: nothing else
// keeps its options, and no timer tries it again. A host on which nothing else was written down
// is left as it is; so is one on which the enable was refused, for that person has read why.
func (i *Installer) noteFirstEnable(ctx context.Context, opts EnableOptions, failed error) {
	if !host.Exists(i.Machine.Host.Paths.Config()) {
		return
	}
	c, err := i.Machine.Host.Paths.LoadConfig()
	told := c.Status.FirstEnable != nil
	if err != nil || failed == nil && !told || failed != nil && (c.Spec.ActiveVersion != "" || failure.Is[*failure.RefusedError](failed)) {
		return
	}
	err = i.record(ctx, func(c *state.Config) {
		c.Status.FirstEnable = nil
		if failed != nil && c.Spec.ActiveVersion == "" {
			c.Status.FirstEnable = &state.FirstEnable{Time: i.Machine.Timestamp(), Command: opts.command(), Error: failed.Error()}
		}
	})
	if err != nil {
		i.Machine.Host.Log.Debug("how the first enable ended could not be recorded for status", "error", err)
	}
}

// command is the command line that these options came from, without secrets.
func (o EnableOptions) command() string {
	words := []string{"teleport-update", "enable"}
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
	add("ready-url", o.ReadyURL)
	if o.HealthWindow > 0 {
		add("health-window", o.HealthWindow.String())
	}
	if o.RollbackWindow > 0 {
		add("rollback-window", o.RollbackWindow.String())
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
	if o.KeepProxy {
		words = append(words, "--keep-proxy")
	}
	if o.ReplaceUpdater {
		words = append(words, "--replace-updater")
	}
	if o.NoClusterReport != nil {
		words = append(words, map[bool]string{true: "--no-cluster-report", false: "--no-cluster-report=false"}[*o.NoClusterReport])
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
