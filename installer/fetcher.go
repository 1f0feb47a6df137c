package installer

import (
	"context"
	"fmt"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions/fetch"
)

// fetcher says how and what to fetch.
func (o obtainer) fetcher(c state.Config, t version.Release, spec state.Spec) (*fetch.Fetcher, fetch.Request, error) {
	req := fetch.Request{Release: t, Linked: c.Active()}
	httpClient, err := o.http(spec.CAFile)
	if err != nil {
		return nil, req, err
	}
	if req.Sources, err = templates(spec.URLTemplates); err != nil {
		return nil, req, err
	}
	path, err := o.m.Host.Database()
	if err != nil {
		return nil, req, failure.Unchanged("find the agent's database: %w", err)
	}
	take, restore, err := transaction.RoomFor(state.Database{Path: path, Plan: state.BackupDatabase}, "")
	if err != nil {
		return nil, req, err
	}
	req.Extra = take + restore
	f := fetch.New(o.m.Host.Store, httpClient, o.m.Host.Log)
	if o.screen != nil {
		f.Progress = fetch.NewBar(o.screen)
	}
	if tree, ok, err := o.m.Active(c); err == nil && ok {
		req.Active = &tree
	}
	return f, req, nil
}

// templates parses what was configured; nothing configured means the vendor's
// own place.
func templates(configured []string) ([]*fetch.Template, error) {
	if len(configured) == 0 {
		configured = []string{fetch.DefaultTemplate}
	}
	var sources []*fetch.Template
	for _, text := range configured {
		t, err := fetch.ParseTemplate(text)
		if err != nil {
			return nil, err
		}
		sources = append(sources, t)
	}
	return sources, nil
}

// announcePatience bounds a look at checksums: others wait for the lock.
const announcePatience = 20 * time.Second

// announced is the checksum that the mirrors announce for a version.
func (o obtainer) announced(ctx context.Context, c state.Config, t version.Release, spec state.Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	f, req, err := o.fetcher(c, t, spec)
	if err != nil {
		return "", err
	}
	return f.Checksum(ctx, t, req.Sources)
}

// exposed names the templates that lead into folders of this host in which others than
// root may exchange a release. blind is why nobody can tell of one.
func exposed(spec state.Spec) (all []string, blind error) {
	for _, text := range spec.URLTemplates {
		t, err := fetch.ParseTemplate(text)
		if err != nil {
			continue // a run that uses it says so
		}
		switch err := t.Exposed(); {
		case err == nil:
		case trust.Blind(err):
			blind = fmt.Errorf("%s: %w", t, err)
		default:
			all = append(all, fmt.Sprintf("users other than root could change what root runs: %v; make the folder of %s writable by root only", err,
				t))
		}
	}
	return all, blind
}
