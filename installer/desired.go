package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
	"teleport-update/versions"
)

// httpsPort is the port if a person names only the host of a proxy.
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

// askFirst asks find for enable, which may not know the port of the proxy: a person who names only a host means 443, and an agent's
// configuration means 3080. If nothing answers at the first port, askFirst tries the other. Any answer is the proxy's word, and so is a
// certificate that is not trusted. askFirst writes the address that answered into spec, with its port: the timer asks that address from
// then on.
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

// lastAnswer returns the record of an answer of find.
func (f finder) lastAnswer(spec state.Spec, a find.Answer) *state.LastAnswer {
	return &state.LastAnswer{
		Time: f.m.Timestamp(), Proxy: spec.Proxy, Group: spec.Group,
		Release: version.Release{Version: a.Version, Edition: a.Edition}, AutoUpdate: a.AutoUpdate, Jitter: int(a.Jitter / time.Second),
		GroupUnknown: a.GroupUnknown, RetryFailed: a.RetryFailed,
	}
}

// asker identifies this host to others on its data folder; empty if it has no machine-id.
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

// wanted is a release that is to be on disk, whole.
type wanted struct {
	version.Release
	Config state.Config
	Spec   state.Spec // with proxy and group filled in
	SHA256 string     // of a release that was published again: the copy on disk is another one
	// BelowMinimum: root said that the policy's minimum and withdrawn versions do not count.
	BelowMinimum bool
	// Unasked: the owner's policy is not asked. An open transaction goes back to the release.
	Unasked bool
	Retried bool // nobody has to run the command again: the next tick tries
}

// accepts reports whether a tree is the wanted release. A copy of an agent that no tarball brought is not.
func (w wanted) accepts(tree versions.Tree) bool {
	return tree.Origin == "" && (w.SHA256 == "" || tree.SHA256 == w.SHA256)
}

// intent is a request that was decided on, for a release that need not be on disk.
type intent struct {
	wanted
	Request transaction.Request
	Jitter  time.Duration
}

// releaseOf returns the release that find names.
func releaseOf(a find.Answer) version.Release {
	return version.Release{Version: a.Version, Edition: a.Edition}
}

// named returns a tree of a release whose digest is not known.
func named(r version.Release) state.Tree { return state.Tree{Release: r} }

// pinning returns the command that installs a version.
func pinning(t, active version.Release) string {
	pin := "teleport-update pin " + t.Version
	if version.Compare(t.Version, active.Version) < 0 {
		pin += " --allow-downgrade"
	}
	return pin
}

// ticks loads what the runs of the timer remember of this boot.
func (i *Installer) ticks() state.Ticks {
	clock := state.Clock{Now: i.Machine.Now()}
	if i.Up != nil {
		clock.Up = i.Up()
	}
	return state.LoadTicks(i.Machine.Host.Paths.Ticks(), i.Machine.Host.Paths.DataDir, i.Machine.BootID(), clock)
}

// up returns how long this host has been up, including sleep; zero if that cannot be read.
func up() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// succeeded forgets the errors of the timer's runs: a person's command ended well.
func (i *Installer) succeeded() {
	m := i.ticks()
	m.Failing, m.Unreachable, m.Error, m.Good = nil, nil, "", i.Machine.Timestamp()
	if err := m.Save(i.Machine.Host.Paths.Ticks()); err != nil {
		i.Machine.Host.Log.Debug("that the command ended well could not be recorded for status", "error", err)
	}
}

// changeStatus changes the status in updates.yaml under the update lock.
func changeStatus(ctx context.Context, m *transaction.Machine, change func(*state.Config)) error {
	unlock, err := state.Lock(ctx, m.Host.Paths.UpdateLock(), state.LockPatience)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := m.FreshConfig()
	if err != nil {
		return err
	}
	change(&c)
	return c.Save(m.Host.Paths.Config())
}

// endedEarly is the outcome of an attempt that ended before the change of version, with the release on disk. The history takes it
// from updates.yaml, with the command that asked.
func endedEarly(m *transaction.Machine, to version.Release, cause error) *state.LastUpdate {
	return &state.LastUpdate{Time: m.Timestamp(), Target: to.Version, TargetEdition: to.Edition, Result: state.FailedEarly,
		Error: cause.Error(), ErrorCode: transaction.ErrorCode(cause)}
}

// writeEarlyEnd records that a person's command ended early, and returns cause, which says what state the host is in.
func writeEarlyEnd(ctx context.Context, m *transaction.Machine, to version.Release, cause error) error {
	if ctx.Err() != nil || host.Absent(m.Host.Paths.Config()) { // a refused first enable leaves nothing
		return cause
	}
	err := changeStatus(ctx, m, func(c *state.Config) { c.Status.LastUpdate = endedEarly(m, to, cause) })
	if err != nil {
		m.Host.Log.Debug("the attempt could not be recorded for the history", "error", err)
	}
	return cause
}

// reportTickRefused is writeEarlyEnd for a run of update. A refusal has a condition of status, and a run of the timer fails
// with it once.
func reportTickRefused(ctx context.Context, m *transaction.Machine, to version.Release, cause error) error {
	if !failure.Is[*failure.RefusedError](cause) {
		return writeEarlyEnd(ctx, m, to, cause)
	}
	c, unlock, err := m.Open(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	defer unlock()
	return m.ReportRefusal(&c, to, cause)
}
