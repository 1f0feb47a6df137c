package installer

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/installer/state"
	"teleport-update/versions"
)

// Finding is one thing that verify looked at.
type Finding struct {
	Subject string `json:"subject"`
	OK      bool   `json:"ok"`
	Detail  string `json:"detail"`
}

// Verify checks every kept version against its manifest, and links and units
// against the active version. It changes nothing.
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
	for _, text := range exposed(c.Spec) {
		findings = append(findings, Finding{Subject: "template", Detail: text})
	}
	if c.Spec.ActiveVersion == "" {
		return append(findings, Finding{Subject: "active version", OK: true, Detail: "none: updates were never enabled"}), nil
	}
	tree, ok, err := i.Active(c)
	if err != nil {
		return nil, err
	}
	if !ok {
		return append(findings, Finding{Subject: "version " + c.Spec.ActiveVersion, Detail: "the active version is not whole on disk: `teleport-update update --now` fetches it again"}), nil
	}
	problems, err := i.Problems(tree)
	if err != nil {
		return nil, err
	}
	problems = append(problems, i.OwnUnits().Problems()...)
	if len(problems) == 0 {
		// All files are as they should be; a drop-in may still have the last word.
		if problems, err = i.startProblems(ctx, tree); err != nil {
			return nil, err
		}
	}
	for _, p := range problems {
		findings = append(findings, Finding{Subject: "links and units", Detail: p})
	}
	if len(problems) == 0 {
		findings = append(findings, Finding{Subject: "links and units", OK: true, Detail: fmt.Sprintf("all lead to version %s", c.Spec.ActiveVersion)})
	}
	return append(findings, i.verifyPending(ctx)...), nil
}

// exposed names the templates that lead into folders of this host in which others than
// root may exchange a release.
func exposed(spec state.Spec) (all []string) {
	for _, text := range spec.URLTemplates {
		t, err := versions.ParseTemplate(text)
		if err != nil {
			continue // a run that uses it says so
		}
		if err := t.Exposed(); err != nil {
			all = append(all, fmt.Sprintf("whoever can write there decides what root runs: %v; see that root alone can write the folder of %s", err, t))
		}
	}
	return all
}

func (i *Installer) roleOf(c state.Config, t versions.Tree) string {
	switch t.Release {
	case c.Active():
		return "whole, active"
	case c.Previous():
		return "whole, previous"
	}
	return "whole"
}

// startProblems says what keeps systemd, where it runs, from starting a version
// whose links and unit are in their places.
func (i *Installer) startProblems(ctx context.Context, tree versions.Tree) ([]string, error) {
	sight, err := i.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.CheckStarts(sight.Unit, tree); err != nil {
		return []string{err.Error()}, nil
	}
	return nil, nil
}
