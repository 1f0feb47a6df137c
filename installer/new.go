package installer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/internal/selinux"
	"teleport-update/report"
	"teleport-update/versions"
)

// New returns an Installer for this host and its own clock. Command starts this
// program again: its path and global flags.
func New(paths state.Paths, log *slog.Logger, command ...string) *Installer {
	store := versions.NewStore(paths.Versions())
	store.Programs = paths.Programs()
	h := &host.Host{Paths: paths, Store: store, Log: log, Labels: selinux.HostLabels()}
	if len(command) > 0 {
		h.Program = command[0]
	}
	i := &Installer{
		Machine: &transaction.Machine{
			Host:    h,
			Command: command,
			Now:     time.Now,
			BootID:  procfs.BootID,

			UserPatience: time.Minute,
		},
		BuildVersion: ownVersion(),
		MachineID:    report.MachineID,
		Processes:    procfs.Host(),
		Boot:         survey.HostBoot(),
		Up:           up,
		Started:      time.Now(),
		HookLimit:    hookLimit,
		Jitter: func(limit time.Duration) time.Duration {
			if limit <= 0 {
				return 0
			}
			return rand.N(limit)
		},
	}
	i.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		return transaction.HostAgent(ctx, paths.AgentUnit(), log, i.drawWatch)
	}
	i.Machine.Refetch = i.obtainer().refetch
	i.Machine.AskRescuer, i.Machine.OpenByName = i.Machine.Host.Rescuer, procfs.Host().OpenByName
	return i
}
