package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The goals in the docs are those that a run is held to.
func TestTheDocsNameTheGoals(t *testing.T) {
	data, err := os.ReadFile("../../docs/development/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "## Goals\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := strings.Split(table, "\n| ")
	for what, want := range map[string]string{
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
	} {
		found := false
		for _, row := range rows {
			found = found || strings.HasPrefix(row, what) && strings.HasSuffix(strings.TrimSpace(row), "| "+want+" |")
		}
		if !found {
			t.Errorf("no goal of %s for %q in:\n%s", want, what, table)
		}
	}
}
