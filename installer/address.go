package installer

import (
	"context"
	"fmt"

	"teleport-update/find"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/webclient"
)

// httpsPort is what a person means who names only the host of a proxy.
const httpsPort = 443

// askFirst asks find for enable, which may not know the port of the proxy: who names
// only a host means 443, and an agent's configuration 3080. The other of the two is tried
// where nothing answers at the first. Any answer and a certificate that is not trusted are
// the proxy's word. The address that answered is in spec then, with its port: it is what
// the timer asks from then on.
func (i *Installer) askFirst(ctx context.Context, spec *state.Spec, byAgent bool) (find.Answer, error) {
	bare, first, second := spec.Proxy, httpsPort, host.ProxyPort
	if byAgent {
		agent, err := host.ReadAgentSettings(i.Paths.AgentConfig)
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
	i.Log.Info("the proxy answered, and is asked at this address from now on", "proxy", spec.Proxy)
	return answer, nil
}
