package installer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/console"
	"teleport-update/versions"
	"teleport-update/versions/fetch"
)

// Finding is one thing that verify looked at.
type Finding struct {
	Subject string `json:"subject"`
	OK      bool   `json:"ok"`
	Detail  string `json:"detail"`
}

// Verify checks every kept version against its manifest, links and units against the
// active version, and whether the agent runs it. It changes nothing.
func (i *Installer) Verify(ctx context.Context) ([]Finding, error) {
	c, err := i.Paths.LoadConfig()
	if err != nil {
		return nil, err
	}
	entries, err := i.Store.List()
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, e := range entries {
		if e.Kind != versions.Complete {
			continue
		}
		f := Finding{Subject: "version " + e.Tree.Release.Short(), OK: true, Detail: i.roleOf(c, e.Tree)}
		err := e.Tree.Verify(ctx)
		if damaged, ok := errors.AsType[*versions.DamagedError](err); ok {
			f.OK, f.Detail = false, damaged.Error()
		} else if err != nil {
			return nil, err
		}
		findings = append(findings, f)
	}
	if left := i.oldVersionsLeft(c); left != "" && !host.Exists(i.Paths.Journal()) {
		findings = append(findings, Finding{Subject: "old versions", OK: true, Detail: left})
	}
	for _, text := range exposed(c.Spec) {
		findings = append(findings, Finding{Subject: "template", Detail: text})
	}
	findings = append(findings, i.verifyPolicy(c, entries)...)
	if c.Spec.ActiveVersion == "" {
		return append(findings, Finding{Subject: "active version", OK: true, Detail: "none: updates were never enabled"}), nil
	}
	findings = append(findings, i.verifyAgent(ctx, c)...)
	tree, ok, err := i.Active(c)
	if err != nil {
		return nil, err
	}
	if !ok || !host.Exists(tree.Binary("")) {
		return append(findings, Finding{Subject: "version " + c.Spec.ActiveVersion, Detail: "the active version is not whole on disk: `teleport-update update` fetches it again"}), nil
	}
	problems, err := i.Problems(tree)
	if err != nil {
		return nil, err
	}
	problems = slices.Concat(problems, i.OwnUnits().Problems(), i.OwnUnits().Overruled())
	if len(problems) == 0 {
		// All files are as they should be; a drop-in may still keep systemd, where it runs,
		// from starting the version.
		sight, err := i.look(ctx)
		if err != nil {
			return nil, err
		}
		if err := i.CheckStarts(sight.Unit, tree); err != nil {
			problems = []string{err.Error()}
		}
	}
	for _, p := range problems {
		findings = append(findings, Finding{Subject: "links and units", Detail: p})
	}
	if len(problems) == 0 {
		findings = append(findings, Finding{Subject: "links and units", OK: true, Detail: fmt.Sprintf("all lead to version %s", c.Spec.ActiveVersion)})
	}
	return append(findings, i.verifyOthers(ctx, tree)...), nil
}

// verifyPolicy says which of the versions on disk the host's owner allows.
func (i *Installer) verifyPolicy(c state.Config, entries []versions.Entry) (all []Finding) {
	p, err := i.ownerPolicy(c)
	if err != nil {
		return []Finding{{Subject: "policy", Detail: err.Error()}}
	}
	if p.Any() {
		all = append(all, Finding{Subject: "policy", OK: true, Detail: p.String()})
	}
	for _, e := range entries {
		if e.Kind != versions.Complete {
			continue
		}
		err := p.Floors(e.Tree.Release, e.Tree.SHA256)
		if err == nil {
			err = p.Kept(e.Tree)
		}
		if err != nil { // a version that is kept and may not be switched to does no harm
			all = append(all, Finding{Subject: "policy", OK: e.Tree.Release != c.Active(), Detail: err.Error()})
		}
	}
	return all
}

// WriteFindings prints what was found for a person, and returns how much of it is wrong.
func WriteFindings(w io.Writer, findings []Finding) (problems int) {
	for _, f := range findings {
		mark := "ok  "
		if !f.OK {
			mark = "BAD "
			problems++
		}
		fmt.Fprintf(w, "%s %s: %s\n", mark, console.Line(f.Subject), console.Line(f.Detail))
	}
	return problems
}

// verifyAgent says whether the agent runs as it should. While a transaction is open,
// nobody can tell.
func (i *Installer) verifyAgent(ctx context.Context, c state.Config) (all []Finding) {
	v := i.viewAgent(ctx)
	if host.Exists(i.Paths.Journal()) || v.ActiveState == nil && v.Error == nil {
		return nil
	}
	if v.Error != nil {
		return []Finding{{Subject: "agent", Detail: *v.Error}}
	}
	for _, condition := range v.conditions(c.Active(), i.ticks().Unstable, previousToGoBackTo(c)) {
		all = append(all, Finding{Subject: "agent", OK: condition.Type == AgentNotStarted, Detail: condition.Message})
	}
	if all == nil {
		all = []Finding{{Subject: "agent", OK: true, Detail: v.Text()}}
	}
	if v.pending.Is() { // a problem only where the next start would take something from the agent
		all = append(all, Finding{Subject: "restart pending", OK: len(v.pending.Loses) == 0, Detail: v.pending.explained()})
	}
	if v.timerOff != "" && c.Spec.Enabled { // an administrator may want it so
		all = append(all, Finding{Subject: "timer", OK: true, Detail: v.timerOff})
	}
	return all
}

// exposed names the templates that lead into folders of this host in which others than
// root may exchange a release.
func exposed(spec state.Spec) (all []string) {
	for _, text := range spec.URLTemplates {
		t, err := fetch.ParseTemplate(text)
		if err != nil {
			continue // a run that uses it says so
		}
		if err := t.Exposed(); err != nil {
			all = append(all, fmt.Sprintf("users other than root could change what root runs: %v; make the folder of %s writable by root only", err, t))
		}
	}
	return all
}

func (i *Installer) roleOf(c state.Config, t versions.Tree) string {
	from := ""
	if t.Origin != "" {
		from = ", from the package (" + t.Origin + "), for rollback only"
	}
	switch t.Release {
	case c.Active():
		return "whole, active" + from
	case c.Previous():
		return "whole, previous" + from
	}
	if f := c.Status.Failed; f != nil && f.Release() == t.Release && f.SHA256 == t.SHA256 {
		return "whole, kept for its next attempt"
	}
	return "whole"
}
