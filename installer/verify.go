package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/view"
	"teleport-update/versions"
)

// Verify prints what the checks of status found, and checks every kept version against its manifest. It changes nothing. While an updater
// is at work, Verify reports only that: the host is between two states. A file that cannot be read is a finding; only a caller who may not
// read updates.yaml gets an error.
func (i *Installer) Verify(ctx context.Context) ([]view.Finding, error) {
	s := i.survey()
	defer s.Close()
	c, unread := s.Config()
	if errors.Is(unread, fs.ErrPermission) {
		return nil, unread
	}
	if busy := i.atWork(s); busy != nil {
		return busy, nil
	}
	findings, entries := i.verifyVersions(ctx, c)
	if unread == nil {
		findings = append(findings, i.verifyPolicy(c, entries)...)
	}
	q := decision.Question{Deep: true}
	i.desired(ctx, c, StatusOptions{Offline: true}, &q)
	verdict := i.judge(ctx, s, c, &q)
	findings = append(findings, view.Findings(verdict, unseen(s)...)...)
	if unread == nil && c.Spec.ActiveVersion == "" {
		findings = append(findings, view.Finding{Subject: "active version", OK: true, Detail: "none: updates were never enabled"})
	}
	// An updater may have begun meanwhile.
	if busy := i.atWork(i.survey()); busy != nil {
		return busy, nil
	}
	return findings, nil
}

// atWork says that an updater changes the host now; nil if none does.
func (i *Installer) atWork(s *survey.Survey) []view.Finding {
	t, err := s.Transaction()
	if err != nil || t == nil || !t.Running {
		return nil
	}
	return []view.Finding{{Subject: "transaction", OK: true, Type: decision.TransactionRunning,
		Detail: t.Working + "; verify has nothing to check before it is over"}}
}

// verifyVersions checks the versions that are on disk, and returns them.
func (i *Installer) verifyVersions(ctx context.Context, c state.Config) (findings []view.Finding, entries []versions.Entry) {
	entries, err := i.Machine.Host.Store.List()
	if err != nil {
		return []view.Finding{{Subject: "versions", Blind: true, Detail: err.Error()}}, nil
	}
	for _, e := range entries {
		if e.Kind != versions.Complete {
			continue
		}
		f := view.Finding{Subject: "version " + e.Tree.Release.Short(), OK: true, Detail: i.roleOf(c, e.Tree)}
		err := e.Tree.Verify(ctx)
		if damaged, ok := errors.AsType[*versions.DamagedError](err); ok {
			f.OK, f.Detail = false, damaged.Error()
			if r := e.Tree.Release; r != c.Active() { // a repair is of the active version
				f.Detail += fmt.Sprintf("; `%s` fetches it again and switches to it, and so does an update to it", pinning(r, c.Active()))
			}
		} else if err != nil {
			f.OK, f.Blind, f.Detail = false, true, err.Error()
		}
		findings = append(findings, f)
	}
	return findings, entries
}

// verifyPolicy reports the policy, and the versions kept beside the active one that it does not allow: they do no harm.
func (i *Installer) verifyPolicy(c state.Config, entries []versions.Entry) (all []view.Finding) {
	p, err := i.ownerRules().policy(c)
	if err != nil {
		return nil // a check of status
	}
	if p.Any() {
		all = append(all, view.Finding{Subject: "policy", OK: true, Detail: p.String()})
	}
	for _, e := range entries {
		if e.Kind != versions.Complete || e.Tree.Release == c.Active() {
			continue
		}
		err := p.Floors(e.Tree.Release, e.Tree.SHA256)
		if err == nil {
			err = p.Kept(e.Tree)
		}
		if err != nil {
			all = append(all, view.Finding{Subject: "policy", OK: true, Detail: err.Error()})
		}
	}
	return all
}

// unseen returns the subjects that verify cannot look at, because there is no version to look at.
func unseen(s *survey.Survey) (subjects []string) {
	v, err := s.Version()
	if err != nil || !v.Whole {
		subjects = append(subjects, "links and units")
	}
	if err != nil || !v.Whole || v.Unusable != nil {
		subjects = append(subjects, "other users")
	}
	return subjects
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
