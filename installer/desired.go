package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/internal/trust"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// announcePatience bounds a look at checksums: others wait for the lock.
const announcePatience = 20 * time.Second

// target is one version in one edition, as a person or find names it.
type target = versions.Release

// lastAnswer is find.json: a cache for status, so it is neither synced nor
// trusted for any decision.
type lastAnswer struct {
	Time       time.Time       `json:"time"`
	Proxy      string          `json:"proxy"`
	Group      string          `json:"group,omitempty"`
	Version    string          `json:"version"`
	Edition    version.Edition `json:"edition"`
	AutoUpdate bool            `json:"auto_update"`
	Jitter     int             `json:"jitter_seconds"`
}

// ask asks find what this host should run, and remembers the answer.
func (i *Installer) ask(ctx context.Context, spec Spec) (find.Answer, error) {
	answer, err := i.askQuietly(ctx, spec)
	if err != nil {
		return find.Answer{}, err
	}
	i.remember(spec, answer)
	return answer, nil
}

// askQuietly asks find and leaves no trace.
func (i *Installer) askQuietly(ctx context.Context, spec Spec) (find.Answer, error) {
	httpClient, err := i.httpClient(spec.CAFile)
	if err != nil {
		return find.Answer{}, err
	}
	client := find.Client{HTTP: httpClient}
	return client.Ask(ctx, find.Request{Proxy: spec.Proxy, Group: spec.Group, Host: i.hostUUID()})
}

// decide decides about an answer of find. About a version that backs off it asks
// the mirrors first whether they still have the release that failed. When that
// cannot be told, it stays backed off.
func (i *Installer) decide(ctx context.Context, c Config, spec Spec, answer find.Answer, now bool) decision {
	q := question{Spec: spec, Status: c.Status, Answer: answer, Now: now, Time: i.Now()}
	d := decide(q)
	if !d.BackingOff {
		return d
	}
	var err error
	if q.Announced, err = i.announced(ctx, c, d.Target, spec); err != nil {
		i.Log.Debug("whether the version that failed was published anew cannot be told", "version", d.Target.Version, "error", err)
		return d
	}
	return decide(q)
}

// announced is the checksum that the mirrors announce for a version.
func (i *Installer) announced(ctx context.Context, c Config, t target, spec Spec) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	f, req, err := i.fetcher(c, t, spec)
	if err != nil {
		return "", err
	}
	return f.Checksum(ctx, t, req.Sources)
}

func (i *Installer) remember(spec Spec, a find.Answer) {
	data, err := json.Marshal(lastAnswer{
		Time: i.Now().UTC().Truncate(time.Second), Proxy: spec.Proxy, Group: spec.Group,
		Version: a.Version, Edition: a.Edition, AutoUpdate: a.AutoUpdate, Jitter: int(a.Jitter / time.Second),
	})
	if err != nil {
		return
	}
	// A rename keeps a reader from seeing half of it; nothing is lost when it
	// does not survive a power cut, and ticks should not cost a sync.
	temp := i.Paths.lastAnswer() + ".new"
	_ = os.Remove(temp) // whatever it is: it is neither followed nor waited for
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(append(data, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Rename(temp, i.Paths.lastAnswer())
	}
	if err != nil {
		os.Remove(temp)
		i.Log.Debug("the answer of find could not be remembered", "error", err)
	}
}

// recall returns the last answer of find for this proxy and group, if any.
func (i *Installer) recall(spec Spec) *lastAnswer {
	data, err := readTrusted(i.Paths.lastAnswer(), maxConfigSize)
	if err != nil {
		return nil
	}
	var a lastAnswer
	if json.Unmarshal(data, &a) != nil || a.Proxy != spec.Proxy || a.Group != spec.Group {
		return nil
	}
	return &a
}

var uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// hostUUID reads the id that the agent gave this host; empty when it has not
// run yet. It becomes part of a request, so nothing but a UUID is taken.
func (i *Installer) hostUUID() string {
	dir, err := i.agentDataDir()
	if err != nil {
		i.Log.Warn("host_uuid is left out of the question to find", "error", err)
		return ""
	}
	file := filepath.Join(dir, "host_uuid")
	data, err := readTrusted(file, 256)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	id := strings.TrimSpace(string(data))
	if err != nil || !uuidShape.MatchString(id) {
		i.Log.Warn("host_uuid is not a UUID and is left out of the question to find", "file", file)
		return ""
	}
	return id
}

// resolveProxy fills in proxy and group: what was said now, else what
// updates.yaml says, else the agent's own configuration.
func (i *Installer) resolveProxy(spec *Spec) error {
	if spec.Proxy != "" && spec.Group != "" {
		return nil
	}
	agent, err := readAgentSettings(i.Paths.AgentConfig)
	if err != nil {
		if spec.Proxy == "" {
			return fmt.Errorf("%w; nothing was changed", err)
		}
		i.Log.Warn("the group could not be read from the agent's configuration", "error", err)
		return nil
	}
	if spec.Proxy == "" && agent.Proxy != "" {
		// The proxy names the programs that root will run.
		if err := trust.Path(i.Paths.AgentConfig); err != nil {
			return fmt.Errorf("the proxy is not taken from %s: %w; nothing was changed: name the proxy with `teleport-update enable --proxy`", i.Paths.AgentConfig, err)
		}
		spec.Proxy = agent.Proxy
	}
	if spec.Group == "" {
		spec.Group = agent.Group
	}
	if spec.Proxy == "" {
		return fmt.Errorf("no proxy address is known; nothing was changed: name it with `teleport-update enable --proxy`, or set teleport.proxy_server in %s", i.Paths.AgentConfig)
	}
	if _, err := find.ParseProxy(spec.Proxy); err != nil {
		return fmt.Errorf("%w; nothing was changed: name another with `teleport-update enable --proxy`", err)
	}
	return nil
}
