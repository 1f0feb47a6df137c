package transaction

import (
	"log/slog"

	"teleport-update/backup"
	"teleport-update/internal/console"
)

// watchBackup begins to log how far a backup is.
func watchBackup(log *slog.Logger) *console.Progress {
	return console.Watch("backing up the agent's database", 0, func(word string) { log.Info(word) })
}

// watchRestore begins to log how far restoring the backup in a folder is.
func watchRestore(log *slog.Logger, dir string) *console.Progress {
	return console.Watch("restoring the agent's database", backup.RestoreTime(dir), func(word string) { log.Info(word) })
}
