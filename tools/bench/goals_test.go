package main

import (
	"fmt"
	"testing"

	"teleport-update/tools/internal/figure"
)

// The goals in the docs are those that a run is held to.
func TestTheDocsNameTheGoals(t *testing.T) {
	unnamed, err := figure.UnnamedGoals("../../docs/development/performance.md", map[string]string{
		"gzip: update / decompressing":              fmt.Sprint(goalDecompress.most),
		"gzip, zstd: update / three passes":         fmt.Sprintf("%g, %g", goalThreePass.most, goalThreeZstd.most),
		"gzip: update / the shell's way":            fmt.Sprint(goalShell.most),
		"gzip, zstd at 100 MiB/s":                   fmt.Sprintf("%g, %g", goalLink.most, goalLinkZstd.most),
		"gzip, zstd, disk of 150 MiB/s":             fmt.Sprint(goalDisk.most),
		"gzip, zstd: peak memory":                   fmt.Sprintf("%g MiB, %g MiB", goalMemory.most, goalMemoryZstd.most),
		"nothing to do: CPU":                        fmt.Sprint(goalIdleCPU.most),
		"nothing to do: peak memory":                fmt.Sprintf("%g MiB", goalIdleMemory.most),
		"update by reload: time without an agent":   fmt.Sprint(goalNoDowntime.most),
		"downgrade: time without an agent":          fmt.Sprint(goalDowntime.most),
		"database backup, checked and synced":       fmt.Sprintf("%g; %g MiB", goalBackup.most, goalBackupMem.most),
		"longest wait of a writer: during a backup": fmt.Sprint(goalWriter.most),
	})
	if err != nil || len(unnamed) > 0 {
		t.Errorf("the docs do not name these goals: %q, %v", unnamed, err)
	}
}
