package installer

import (
	"context"
	"fmt"
	"time"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

// httpsPort is what a person means who names only the host of a proxy.
const httpsPort = 443

// ask asks find what this host should run, and remembers the answer.
func (i *Installer) ask(ctx context.Context, spec state.Spec) (find.Answer, error) {
	answer, err := i.askQuietly(ctx, spec)
	if err != nil {
		return find.Answer{}, err
	}
	if err := i.lastAnswer(spec, answer).Save(i.Machine.Host.Paths.LastAnswer()); err != nil {
		i.Machine.Host.Log.Debug("the answer of the find endpoint could not be recorded", "error", err)
	}
	if answer.GroupUnknown && !i.Machine.Scheduled { // else status says it
		i.Machine.Host.Log.Warn(decision.UnknownGroup(spec.Group))
	}
	return answer, nil
}

// askFirst asks find for enable, which may not know the port of the proxy: who names
// only a host means 443, and an agent's configuration 3080. The other of the two is tried
// where nothing answers at the first. Any answer and a certificate that is not trusted are
// the proxy's word. The address that answered is in spec then, with its port: it is what
// the timer asks from then on.
func (i *Installer) askFirst(ctx context.Context, spec *state.Spec, byAgent bool) (find.Answer, error) {
	bare, first, second := spec.Proxy, httpsPort, host.ProxyPort
	if byAgent {
		places, err := i.Machine.Host.AgentPlaces()
		if err != nil {
			return find.Answer{}, err
		}
		agent, err := host.ReadAgentSettings(places.Config)
		if err != nil {
			return find.Answer{}, err
		}
		bare, first, second = agent.Bare, second, first
	}
	address, portless := find.WithPort(bare, first)
	if !portless {
		return i.ask(ctx, *spec)
	}
	spec.Proxy = address
	answer, err := i.ask(ctx, *spec)
	if err != nil && webclient.Unreached(err) {
		other := *spec
		other.Proxy, _ = find.WithPort(bare, second)
		var again error
		if answer, again = i.ask(ctx, other); again != nil {
			return answer, fmt.Errorf("%w; and at the other port of proxies: %w", err, again)
		}
		spec.Proxy = other.Proxy
	} else if err != nil {
		return answer, err
	}
	i.Machine.Host.Log.Info("the proxy answered, and is asked at this address from now on", "proxy", spec.Proxy)
	return answer, nil
}

// askQuietly asks find and leaves no trace.
func (i *Installer) askQuietly(ctx context.Context, spec state.Spec) (find.Answer, error) {
	question := find.Request{Proxy: spec.Proxy, Group: spec.Group, Host: i.hostUUID(), UpdateID: i.updateID(spec)}
	httpClient, err := i.httpClient(spec.CAFile)
	if err != nil {
		return find.Answer{}, err
	}
	i.asked.Store(&askedWith{httpClient, spec.CAFile})
	client := find.Client{HTTP: httpClient}
	return client.Ask(ctx, question)
}

// decide decides about an answer of find. About a version that backs off it asks
// the mirrors first whether they still have the release that failed. When that
// cannot be told, it stays backed off.
func (i *Installer) decide(ctx context.Context, c state.Config, spec state.Spec, answer find.Answer, now bool) decision.Decision {
	q := decision.Wish{Spec: spec, Status: c.Status, Answer: answer, Now: now, Timer: i.Machine.Scheduled, Time: i.Machine.Now()}
	d := decision.Decide(q)
	if !d.BackingOff {
		return d
	}
	var err error
	if q.Announced, err = i.announced(ctx, c, d.Target, spec); err != nil {
		i.Machine.Host.Log.Debug("it is not known whether the version that failed was published again", "version", d.Target.Version, "error", err)
		return d
	}
	return decision.Decide(q)
}

// lastAnswer is an answer of find as it is written down.
func (i *Installer) lastAnswer(spec state.Spec, a find.Answer) *state.LastAnswer {
	return &state.LastAnswer{
		Time: i.Machine.Timestamp(), Proxy: spec.Proxy, Group: spec.Group,
		Release: version.Release{Version: a.Version, Edition: a.Edition}, AutoUpdate: a.AutoUpdate, Jitter: int(a.Jitter / time.Second), GroupUnknown: a.GroupUnknown, RetryFailed: a.RetryFailed,
	}
}

// recall returns the last answer of find for this proxy and group, if any.
func (i *Installer) recall(spec state.Spec) *state.LastAnswer {
	return state.LoadAnswer(i.Machine.Host.Paths.LastAnswer(), spec.Proxy, spec.Group)
}
