package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/plaintext"
	"teleport-update/internal/regular"
	"teleport-update/internal/trust"
)

// maxTokenSize is far more than a join token has.
const maxTokenSize = 4096

// joinToken is a token with which the agent joins its cluster at its first start, and the place where that start looks for it. RFD 0169
// leaves the agent's configuration to others. Here the token is put where the agent's configuration names a file for it. If there is no
// configuration yet, one that names proxy and token is written.
type joinToken struct {
	secret string
	path   string // where the agent reads it
	config string // the configuration that its unit leads it to
	writes bool   // there is none yet
}

// planToken reads the token and decides where it goes, before anything is changed. Without a file there is no token.
func planToken(h *host.Host, file string) (*joinToken, error) {
	if file == "" {
		return nil, nil
	}
	data, err := regular.Read(file, maxTokenSize, 0)
	if err != nil {
		return nil, failure.Unchanged("read the join token: %w", err)
	}
	t := &joinToken{secret: strings.TrimSpace(string(plaintext.UTF8(data))), path: filepath.Join(h.Paths.DataDir, "token")}
	if t.secret == "" || !isToken(t.secret) {
		return nil, failure.Unchanged("%s does not hold one word; a join token is one", file)
	}
	config, err := host.ConfigurationOn(h).Path()
	if err != nil {
		return nil, err
	}
	t.config = config
	content, err := regular.Read(config, state.MaxConfigSize, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.writes = true
		return t, t.checkPlace()
	}
	if err != nil {
		return nil, failure.Unchanged("read the agent's configuration: %w", err)
	}
	// Root replaces the file that the configuration names.
	if err := trust.Path(config); err != nil {
		return nil, failure.Unchanged("the join token is not put where %s says: %w", config, err).
			To("make that file writable by root only, or leave out --token-file").Refused()
	}
	var agent struct {
		Teleport struct {
			AuthToken  string `yaml:"auth_token"`
			JoinParams struct {
				TokenName string `yaml:"token_name"`
			} `yaml:"join_params"`
		} `yaml:"teleport"`
	}
	if err := yaml.Unmarshal(content, &agent); err != nil {
		return nil, failure.Unchanged("read the agent's configuration %s: %w", config, state.PlainYAML(err))
	}
	for _, named := range []string{agent.Teleport.JoinParams.TokenName, agent.Teleport.AuthToken} {
		if filepath.IsAbs(named) {
			t.path = filepath.Clean(named)
			return t, t.checkPlace()
		}
	}
	return nil, failure.Unchanged("%s names no file for the join token", config).
		To("set teleport.join_params.token_name to %s there, or leave out --token-file", t.path).Refused()
}

// checkPlace refuses to replace a file that is no token, and to put a token where somebody else could lead it elsewhere.
func (t *joinToken) checkPlace() error {
	if t.writes {
		if err := trust.Path(filepath.Dir(t.config)); err != nil {
			return failure.Unchanged("the agent's configuration is not written to %s: %w", t.config, err).
				To("make that folder writable by root only, or write the configuration yourself").Refused()
		}
	}
	if err := trust.Path(filepath.Dir(t.path)); err != nil {
		return failure.Unchanged("the join token is not put into %s: %w", t.path, err).
			To("name another file in teleport.join_params.token_name").Refused()
	}
	content, err := regular.Read(t.path, maxTokenSize, regular.NoLink)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !isToken(strings.TrimSpace(string(plaintext.UTF8(content)))) {
		err = errors.New("it does not hold one word; a join token is one")
	}
	if err != nil {
		return failure.Unchanged("%s is not replaced by the join token: %w", t.path, err).
			To("move it away, or name another file in teleport.join_params.token_name").Refused()
	}
	return nil
}

// isToken reports whether a text is one word, or none.
func isToken(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// placeToken puts the token in place, and a configuration if there is no configuration.
func placeToken(ctx context.Context, m *transaction.Machine, t *joinToken) error {
	if t == nil {
		return nil
	}
	unlock, err := m.LockUpdates(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := m.FreshConfig()
	if err != nil {
		return err
	}
	if err := t.checkPlace(); err != nil { // it may have been made meanwhile
		return err
	}
	files := []struct{ path, content string }{{t.path, t.secret + "\n"}}
	if t.writes {
		content, err := firstConfig(c.Spec.Proxy, t.path)
		if err != nil {
			return err
		}
		files = append(files, struct{ path, content string }{t.config, content})
	}
	for _, f := range files {
		if err := durable.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return fmt.Errorf("place the join token: %w", err)
		}
		// First the note that the file is ours to remove: a secret should not stay.
		if err := m.Host.RecordPlaced(f.path, f.content); err != nil {
			return fmt.Errorf("place the join token: %w", err)
		}
		if err := durable.WriteFile(f.path, []byte(f.content), 0o600); err != nil {
			return fmt.Errorf("place the join token: %w", err)
		}
	}
	m.Host.Log.Info("the join token is in place for the agent's first start", "file", t.path, "configuration", t.config,
		"configuration_written", t.writes)
	return nil
}

// firstConfig returns the configuration of an agent that joins with a token.
func firstConfig(proxy, token string) (string, error) {
	u, err := find.ParseProxy(proxy)
	if err != nil {
		return "", err
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
	type dict = map[string]any
	body, err := yaml.Marshal(dict{
		"version":       "v3",
		"teleport":      dict{"proxy_server": address, "join_params": dict{"method": "token", "token_name": token}},
		"auth_service":  dict{"enabled": "no"},
		"proxy_service": dict{"enabled": "no"},
	})
	return "# Written by teleport-update enable --token-file. It is yours to change.\n" + string(body), err
}
