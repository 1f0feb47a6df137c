package transaction

import (
	"context"
	"log/slog"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// doing is a transaction whose steps are done. It has the record, the request, and doors to the host, to
// the agent and to its database, each as wide as the steps need it.
type doing struct {
	j   *openJournal
	req checked

	agent  agentForward
	health prover
	place  placeForward
	way    unitKeeper
	report clusterReport
	held   databaseForward
	// unread reports whether files of a unit changed since systemd read them.
	unread func(systemd.Unit) bool
	// database opens the agent's database.
	database func(context.Context) (changedDatabase, error)
	// journalRemovedData writes down that a command of the agent's unit removed the data.
	journalRemovedData func(context.Context) error
	proxyOf            func(state.Spec) string // the cluster of a database
	now                func() time.Time
	log                *slog.Logger
	unitFile           string // of the agent
}

// agentForward is the agent to the steps.
type agentForward interface {
	Look(ctx context.Context) (Sight, error)
	Stopping(ctx context.Context) (bool, error)
	Stop(ctx context.Context, how manner) error
	DaemonReload(ctx context.Context) error
}

// placeForward puts a version in its place on the host.
type placeForward interface {
	Link(links []state.LinkChange) error
	PlaceUnit(tree versions.Tree) error
	CheckStarts(u systemd.Unit, tree versions.Tree) error
	Database() (path string, err error)
}

// unitKeeper keeps a unit that the next one takes the place of.
type unitKeeper interface{ keepUnit() error }

// databaseForward is the agent's database with the backup of the open transaction.
type databaseForward interface {
	waitUnused(ctx context.Context, patience time.Duration) error
	giveSecondName() (second string)
	canStart(ctx context.Context) error
}

// changedDatabase is the agent's database, of which a backup is taken and which is exchanged.
type changedDatabase interface {
	SetAside(ctx context.Context, now time.Time) (to string, err error)
	Take(ctx context.Context, r backup.TakeRequest) (backup.Sum, error)
	Knows(sum backup.Sum, dirs ...string)
	Restore(ctx context.Context, dir string) error
}
