package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

// httpsPort is what a person means who names only the host of a proxy.
const httpsPort = 443

// ask asks find what this host should run, and remembers the answer.
func (f finder) ask(ctx context.Context, spec state.Spec) (find.Answer, error) {
	answer, err := f.askQuietly(ctx, spec)
	if err != nil {
		return find.Answer{}, err
	}
	last := f.lastAnswer(spec, answer)
	last.AskedBy(f.asker(), f.m.Host.Paths.LastAnswer())
	if err := last.Save(f.m.Host.Paths.LastAnswer()); err != nil {
		f.m.Host.Log.Debug("the answer of the find endpoint could not be recorded", "error", err)
	}
	if answer.GroupUnknown && !f.m.Scheduled { // else status says it
		f.m.Host.Log.Warn(decision.UnknownGroup(spec.Group))
	}
	return answer, nil
}

// askFirst asks find for enable, which may not know the port of the proxy: who names
// only a host means 443, and an agent's configuration 3080. The other of the two is tried
// where nothing answers at the first. Any answer and a certificate that is not trusted are
// the proxy's word. The address that answered is in spec then, with its port: it is what
// the timer asks from then on.
func (f finder) askFirst(ctx context.Context, spec *state.Spec, byAgent bool) (find.Answer, error) {
	bare, first, second := spec.Proxy, httpsPort, host.ProxyPort
	if byAgent {
		config, err := host.ConfigurationOn(f.m.Host).Path()
		if err != nil {
			return find.Answer{}, err
		}
		agent, err := host.ReadAgentSettings(config)
		if err != nil {
			return find.Answer{}, err
		}
		bare, first, second = agent.Bare, second, first
	}
	address, portless := find.WithPort(bare, first)
	if !portless {
		return f.ask(ctx, *spec)
	}
	spec.Proxy = address
	answer, err := f.ask(ctx, *spec)
	if err != nil && webclient.Unreached(err) {
		other := *spec
		other.Proxy, _ = find.WithPort(bare, second)
		var again error
		if answer, again = f.ask(ctx, other); again != nil {
			return answer, fmt.Errorf("%w; and at the other port of proxies: %w", err, again)
		}
		spec.Proxy = other.Proxy
	} else if err != nil {
		return answer, err
	}
	f.m.Host.Log.Info("the proxy answered, and is asked at this address from now on", "proxy", spec.Proxy)
	return answer, nil
}

// askQuietly asks find and leaves no trace.
func (f finder) askQuietly(ctx context.Context, spec state.Spec) (find.Answer, error) {
	question := find.Request{Proxy: spec.Proxy, Group: spec.Group, Host: f.hostUUID(), UpdateID: f.updateID(spec)}
	httpClient, err := f.http(spec.CAFile)
	if err != nil {
		return find.Answer{}, err
	}
	f.asked.Store(&askedWith{httpClient, spec.CAFile})
	client := find.Client{HTTP: httpClient}
	return client.Ask(ctx, question)
}

// lastAnswer is an answer of find as it is written down.
func (f finder) lastAnswer(spec state.Spec, a find.Answer) *state.LastAnswer {
	return &state.LastAnswer{
		Time: f.m.Timestamp(), Proxy: spec.Proxy, Group: spec.Group,
		Release: version.Release{Version: a.Version, Edition: a.Edition}, AutoUpdate: a.AutoUpdate, Jitter: int(a.Jitter / time.Second),
		GroupUnknown: a.GroupUnknown, RetryFailed: a.RetryFailed,
	}
}

// asker is this host as others on its data folder know it; empty if it has no machine-id.
func (f finder) asker() state.Asker {
	data, err := regular.Read(f.machineID, 256, 0)
	id := strings.TrimSpace(string(data))
	if err != nil || id == "" || id == "uninitialized" {
		return state.Asker{}
	}
	sum := sha256.Sum256([]byte("teleport-update find.json\x00" + id))
	name, _ := os.Hostname()
	return state.Asker{Machine: hex.EncodeToString(sum[:16]), Host: name}
}

// recall returns the last answer of find for this proxy and group, if any.
func (f finder) recall(spec state.Spec) *state.LastAnswer {
	return state.LoadAnswer(f.m.Host.Paths.LastAnswer(), spec.Proxy, spec.Group)
}
