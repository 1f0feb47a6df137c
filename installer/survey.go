package installer

import (
	"context"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// survey returns the host as it is now, for a report: it does not wait long for systemd.
func (i *Installer) survey() *survey.Survey { return i.surveyWithin(lookPatience) }

// surveyToChange returns the host as it is now, for a change: it waits for systemd as long as it takes.
func (i *Installer) surveyToChange() *survey.Survey { return i.surveyWithin(0) }

// lookPatience bounds the wait for systemd at a question: a command that reports must answer.
const lookPatience = 3 * time.Second

func (i *Installer) surveyWithin(patience time.Duration) *survey.Survey {
	look := host.ForOneLook(i.Machine.Host)
	return survey.New(survey.Sources{
		Patience:   patience,
		StateFiles: stateFiles{i}, Place: look, Configuration: host.ConfigurationOn(look),
		Updater: updater{i, look}, Fits: consistency{i}, Store: i.Machine.Host.Store,
		Processes: i.Processes, Boot: i.Boot, Paths: i.Machine.Host.Paths, Now: i.Machine.Now,
		Connect: func(ctx context.Context) (survey.Manager, error) { return i.Machine.Agent(ctx) },
		Reach: func(ctx context.Context, u systemd.Unit, ask host.AskUnit) (why, err error) {
			return host.CheckReach(ctx, look, u, ask)
		},
	})
}

// consistency checks that records and host fit together.
type consistency struct{ i *Installer }

func (c consistency) CheckNeverEnabled() error { return c.i.Machine.Host.CheckNeverEnabled() }

func (c consistency) CheckEnded(ctx context.Context, config state.Config, seen transaction.Seen) error {
	return c.i.Machine.CheckEnded(ctx, config, seen)
}

func (c consistency) CheckPair(ctx context.Context, config state.Config, tree versions.Tree, seen transaction.Seen) error {
	return c.i.Machine.CheckPair(ctx, config, tree, seen)
}

func (c consistency) CheckLed(ctx context.Context, tree versions.Tree, seen transaction.Seen) error {
	return transaction.CheckLed(ctx, c.i.Machine, tree, seen)
}

func (c consistency) CheckTables(ctx context.Context, config state.Config, seen transaction.Seen) (why, err error) {
	return transaction.CheckTables(ctx, c.i.Machine, config, seen)
}

func (c consistency) Schema(ctx context.Context) (string, error) { return c.i.Machine.Schema(ctx) }

// updater is the updater's own part of the host.
type updater struct {
	i    *Installer
	host *host.Host
}

func (u updater) OwnUnits() systemd.Units { return u.host.OwnUnits() }

func (u updater) CheckOthersCame() *failure.Error { return host.CheckOthersCame(u.host) }

func (u updater) CheckRecovery(ctx context.Context, recovery systemd.Unit) *failure.Error {
	return u.host.CheckRecovery(ctx, recovery)
}

func (u updater) CheckLimits(of systemd.Unit) *failure.Error { return u.host.CheckLimits(of) }

func (u updater) Rescuer(ctx context.Context) (program string, schema int, err error) {
	return u.i.Machine.AskRescuer(ctx)
}

// stateFiles reads the updater's records.
type stateFiles struct{ i *Installer }

func (r stateFiles) Config() (state.Config, error) { return r.i.Machine.Host.Paths.LoadConfig() }

func (r stateFiles) Ticks() state.Ticks { return r.i.ticks() }

func (r stateFiles) History() (state.History, error) {
	return state.ReadHistory(r.i.Machine.Host.Paths.History())
}

func (r stateFiles) Journal() (*transaction.Description, error) {
	return transaction.Describe(r.i.Machine.Host.Paths.Journal())
}
