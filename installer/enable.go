package installer

import (
	"context"
	"fmt"

	"teleport-update/find"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/report"
)

// Enable installs the version that find names, whatever agent_autoupdate says,
// and turns updates on. When it fails, no settings are written: the timer
// has nothing to retry.
func (i *Installer) Enable(ctx context.Context, opts EnableOptions) error {
	if err := checkPrograms(i.Machine.Host.Paths, opts.ProgramsDir); err != nil {
		return err
	}
	token, err := planToken(i.Machine.Host, opts.TokenFile)
	if err != nil {
		return err
	}
	if opts.TextfileDir != "" {
		if err := state.CheckTextfileDir(opts.TextfileDir); err != nil {
			return failure.Unchanged("--textfile-dir: %w", err).To("name a folder that root alone can write").Refused()
		}
	}
	reportToken := ""
	if opts.ReportTokenFile != "" {
		if reportToken, err = report.ReadToken(opts.ReportTokenFile); err != nil {
			return failure.Unchanged("%w", err)
		}
	}
	if err := i.makePolicy(ctx, opts); err != nil {
		return err
	}
	rules, _ := i.ownerRules().policy(state.EmptyConfig()) // considerEnable reports its errors
	var offered offer
	in, err := i.considerEnable(ctx, opts, &offered)
	if err == nil && in != nil {
		err = i.carryOut(ctx, in)
		if err != nil && i.madeByAnother(in) {
			i.Machine.Host.Log.Info("another command made the change first; the settings of this command follow", "version", in.Short())
			if in, err = i.considerEnable(ctx, opts, &offered); err == nil && in != nil {
				err = i.carryOut(ctx, in)
			}
		}
	}
	i.logShell()
	c, unread := i.survey().Config()
	if unread == nil {
		i.saveFirstEnable(ctx, c, opts, err)
	}
	if err != nil {
		shown, unfit := offered.withCommand(err, opts, i.Machine.Host.Paths)
		if unfit != nil {
			i.Machine.Host.Log.Warn("the find server offers a URL template that cannot be used", "reason", unfit)
		}
		return shown
	}
	i.succeeded()
	// Before the first run of the timer: the policy may be gone by then. The save below reports an error of updates.yaml.
	i.ownerRules().rememberSeen(ctx, c, rules)
	i.logHTTPProxy()
	if err := placeToken(ctx, i.Machine, token); err != nil {
		return err
	}
	return i.heartbeats().enroll(ctx, reportToken)
}

// madeByAnother reports whether the version that a failed command wanted became active meanwhile, and no transaction is open.
func (i *Installer) madeByAnother(in *intent) bool {
	c, err := i.survey().Config()
	return err == nil && c.Active() == in.Release && in.Config.Active() != in.Release && host.Absent(i.Machine.Host.Paths.Journal())
}

// insisting returns the command that makes a change although the active version is damaged.
func insisting(r transaction.Request) string {
	if r.Kind == transaction.Pin {
		return "teleport-update pin " + r.To.Version + " --allow-downgrade"
	}
	return "teleport-update enable --allow-downgrade"
}

// carryOut puts the release of an intent on disk and has the transaction made.
func (i *Installer) carryOut(ctx context.Context, in *intent) error {
	if err := makeWhole(ctx, i, in.wanted, in.Request.Force, insisting(in.Request)); err != nil {
		return err
	}
	tree, unclaim, err := i.obtainer().obtain(ctx, in.wanted)
	if err != nil {
		return i.obtainer().recordEarlyFailure(ctx, in.wanted, err)
	}
	defer unclaim()
	if err := i.Machine.Host.CheckArguments(tree); err != nil {
		return writeEarlyEnd(ctx, i.Machine, in.Release, err)
	}
	in.Request.To = transaction.TreeOf(tree)
	if in.Config.Spec.ActiveVersion != "" {
		return i.transact(ctx, in.Request)
	}
	carried, err := i.carry(ctx, tree)
	if err != nil {
		return writeEarlyEnd(ctx, i.Machine, in.Release, err)
	}
	err = i.transact(ctx, in.Request)
	if err != nil && carried {
		i.uncarry(ctx)
	}
	return err
}

func (i *Installer) considerEnable(ctx context.Context, opts EnableOptions, offered *offer) (*intent, error) {
	if err := i.checkUnitsStay(); err != nil {
		return nil, err
	}
	c, unlock, err := i.Machine.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := i.ownerRules().seePolicyOnEnable(&c); err != nil {
		return nil, err
	}
	spec, err := opts.apply(c.Spec)
	if err != nil {
		return nil, failure.Unchanged("%w", err)
	}
	var stay version.Release
	if opts.ReplaceUpdater {
		if stay, err = i.adopt(&spec); err != nil {
			return nil, err
		}
	}
	spec = i.Machine.Host.Paths.Given(spec)
	question := spec
	if err := askAgentSettings(i, opts, spec.Proxy, c); err != nil {
		return nil, err
	}
	if err := i.Machine.Host.ResolveProxy(&question); err != nil {
		return nil, err
	}
	spec.AllowProxyConflict = allowsConflict(i, opts, spec.Proxy, c)
	byAgent := spec.Proxy == ""
	spec.Enabled = true
	unsafe, blind := exposed(spec)
	for _, text := range unsafe {
		i.Machine.Host.Log.Warn("a template is not safe", "reason", text)
	}
	if blind != nil {
		i.Machine.Host.Log.Warn("whether a template is safe cannot be told", "error", blind)
	}

	flight, err := i.Machine.Preflight(ctx)
	if err != nil {
		return nil, err
	}
	defer flight.Close()
	if err := lookBeforeEnable(ctx, i, flight, c, opts.ReplaceUpdater); err != nil {
		return nil, err
	}
	answer, err := i.finder().askFirst(ctx, &question, byAgent)
	// The proxy is kept. The group is looked up again each time unless it was given: people change the agent's configuration.
	spec.Proxy = question.Proxy
	if err != nil {
		return nil, fmt.Errorf("%w; %s: %s", err, transaction.StaysAsItIs(c), runAgain)
	}
	offered.hear(answer, spec)
	offered.say(i.Machine.Host.Log)
	t := version.Release{Version: answer.Version, Edition: answer.Edition}
	if stay.Version != "" {
		t = stay
	}
	if t.Version == "" && c.Spec.ActiveVersion == "" {
		return nil, failure.Unchanged("%s, and there is none on it", decision.NamesNoVersion).
			To("set a version in the cluster, then run the command again").Refused()
	}
	in := &intent{wanted: wanted{Release: t, Config: c, Spec: spec}}
	in.Request = transaction.Request{Kind: transaction.Enable, From: c.Active(), To: named(t), Spec: &in.Spec, Force: opts.AllowDowngrade,
		Replace: opts.ReplaceUpdater}
	switch active := c.Active(); {
	case active.Version == "":
		if err := i.refuseOlder(ctx, flight.Sight.ExecStart, t, opts.AllowDowngrade); err != nil {
			return nil, err
		}
	case active == t, t.Version == "", c.Spec.Pinned:
		return enableActive(ctx, i, c, opts, in)
	case c.Status.Held.Holds(t) && !opts.AllowDowngrade:
		return enableHeld(ctx, i, c, opts, answer, in)
	}
	if err := flight.Ask(ctx, c, in.Request, transaction.Change); err != nil {
		return nil, err
	}
	i.logUnitDir(c, spec)
	return in, nil
}

// askAgentSettings compares the configuration that the agent's unit leads to with the options of enable, and with the proxy that it
// follows. On a host without a version, the configuration must be readable.
func askAgentSettings(i *Installer, opts EnableOptions, proxy string, c state.Config) error {
	if c.Spec.ActiveVersion == "" && !opts.AllowAuthServer {
		servers, err := host.ConfigurationOn(i.Machine.Host).Servers()
		if err == nil {
			err = askServers(servers)
		}
		if err != nil {
			return err
		}
	}
	if opts.AllowProxyConflict {
		return nil
	}
	config, err := host.ConfigurationOn(i.Machine.Host).Path()
	if err != nil {
		return nil // this is an error when it is needed
	}
	agent, err := host.ReadAgentSettings(config)
	if err != nil {
		return nil
	}
	return askProxy(namedProxy{proxy, opts.Proxy == ""}, c.Spec.Proxy, agent, config)
}

// lookBeforeEnable refuses a host on which the units of an agent cannot be placed.
func lookBeforeEnable(ctx context.Context, i *Installer, flight *transaction.Preflight, c state.Config, replace bool) error {
	if flight.Sight.State != state.AgentUnknown {
		if err := i.checkUnitsAtBoot(c); err != nil {
			return err
		}
	}
	if err := i.checkUnitsOfPackages(c.Spec.UnitDir); err != nil {
		return err
	}
	if err := flight.Ask(ctx, c, transaction.Request{Replace: replace}, 0); err != nil {
		return err
	}
	if c.Spec.ActiveVersion != "" || flight.Sight.State == state.AgentUnknown {
		return nil
	}
	return checkOtherAgents(i)
}

// enableHeld turns updates on, and leaves a host on the version of a rollback by hand: an advice that types enable is about a setting, and
// a person who insists on the change says so by --allow-downgrade, or by `update --now`.
func enableHeld(ctx context.Context, i *Installer, c state.Config, opts EnableOptions, answer find.Answer, in *intent) (*intent, error) {
	if err := hearHeld(i, &c, answer); err != nil {
		return nil, err
	}
	i.Machine.Host.Log.Info("the host is held since a rollback by hand, and stays on its version; `teleport-update update --now` releases it",
		"version", c.Spec.ActiveVersion, "wanted", in.Version, "since", c.Status.Held.Since)
	in.Request.Held = c.Status.Held
	return enableActive(ctx, i, c, opts, in)
}

// enableActive turns updates on while the version stays the active one. It returns an intent for that version if it is damaged, and has to
// be fetched again first.
func enableActive(ctx context.Context, i *Installer, c state.Config, opts EnableOptions, in *intent) (*intent, error) {
	whole, err := i.repair(ctx, c, true)
	if err != nil {
		return nil, err
	}
	if !whole {
		in.Release = c.Active()
		return in, nil
	}
	if err := i.Machine.TakeOver(ctx, c, i.Machine.AgentPackages(ctx), opts.ReplaceUpdater); err != nil {
		return nil, err
	}
	if c, err = i.Machine.FreshConfig(); err != nil {
		return nil, err
	}
	return nil, i.turnOn(ctx, c, in.Spec)
}

// logUnitDir says where units go from now on, once nothing is in the way of that any more.
func (i *Installer) logUnitDir(c state.Config, spec state.Spec) {
	if spec.UnitDir != "" && spec.UnitDir != c.Spec.UnitDir {
		i.Machine.Host.Log.Info("units go into another folder than the usual one, and later commands find them there", "folder", spec.UnitDir)
	}
}

// turnOn writes the configuration if the version is in place already.
func (i *Installer) turnOn(ctx context.Context, c state.Config, spec state.Spec) error {
	i.logUnitDir(c, spec)
	if err := i.installUnits(ctx, host.Installing{EnableTimer: true}); err != nil {
		return err
	}
	c.Spec = spec
	if err := c.Save(i.Machine.Host.Paths.Config()); err != nil {
		return err
	}
	if err := i.seeReport(ctx, spec); err != nil {
		return err
	}
	i.Machine.Host.Log.Info("updates are enabled", "version", c.Spec.ActiveVersion, "proxy", spec.Proxy, "pinned", spec.Pinned)
	return nil
}
