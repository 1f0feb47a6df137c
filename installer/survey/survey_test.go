package survey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"teleport-update/internal/executable"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// answer is what a survey says of one part.
type answer struct {
	is  any
	err error
}

// all asks for every part.
func all(s *Survey, ctx context.Context) map[string]answer {
	answers := map[string]answer{}
	add := func(part string, is any, err error) { answers[part] = answer{is, err} }
	config, err := s.Config()
	add("config", config, err)
	journal, err := s.Transaction()
	add("journal", journal, err)
	history, err := s.History()
	add("history", history, err)
	add("ticks", s.Ticks(), nil)
	agent, err := s.Agent(ctx)
	add("agent", agent, err)
	configured, err := s.Configured()
	add("configuration", configured, err)
	settings, err := s.AgentSettings()
	add("settings", settings, err)
	servers, err := s.Servers()
	add("servers", servers, err)
	delay, err := s.Delay(ctx)
	add("delay", delay, err)
	own, err := s.Own(ctx)
	add("own units", own, err)
	recovery, err := s.Recovery(ctx)
	add("recovery", recovery, err)
	recoveryNeeds, err := s.RecoveryNeeds(ctx)
	add("recovery needs", recoveryNeeds, err)
	needs, err := s.Needs(ctx)
	add("needs", needs, err)
	v, err := s.Version()
	add("version", v, err)
	damage, err := s.Damage(ctx)
	add("damage", damage, err)
	links, err := s.Links()
	add("links", links, err)
	starts, err := s.Starts(ctx)
	add("starts", starts, err)
	nextStart, err := s.NextStart(ctx)
	add("next start", nextStart, err)
	pair, err := s.Pair(ctx)
	add("pair", pair, err)
	late, err := s.Late()
	add("late", late, err)
	companions, err := s.Companions()
	add("companions", companions, err)
	others, err := s.OtherAgents()
	add("other agents", others, err)
	again, err := s.StartsAgain(ctx, "tbot.service")
	add("starts again", again, err)
	why, err := s.Fits(ctx)
	add("fits", nil, errors.Join(why, err))
	add("other updater", s.OtherUpdater(), nil)
	add("rescuer", nil, s.Rescuer(ctx))
	add("kept", s.Kept(active), nil)
	return answers
}

// TestEachPartIsReadOnce: whoever decides and whoever tells by one survey speak of one host.
func TestEachPartIsReadOnce(t *testing.T) {
	c := counted{reads: map[string]int{}}
	s, root := surveyOf(t, c)
	if len(c.reads) > 0 {
		t.Errorf("a new survey has read %v", c.reads)
	}
	first := all(s, t.Context())
	for part, a := range first {
		if a.err != nil {
			t.Errorf("%s: %v", part, a.err)
		}
	}
	for part, there := range map[string]bool{
		"version": first["version"].is.(Version).Whole, "links": len(first["links"].is.([]string)) > 0, "late": len(first["late"].is.([]Late)) > 0,
		"companions": len(first["companions"].is.([]Companion)) > 0, "journal": first["journal"].is.(*Transaction) != nil,
		"kept": first["kept"].is.(bool),
	} {
		if !there {
			t.Errorf("the host of the test has nothing of %s", part)
		}
	}
	// What is a file is gone, and the survey still speaks of the host that it has seen.
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for part, a := range all(s, t.Context()) {
			if !reflect.DeepEqual(a, first[part]) {
				t.Errorf("%s was %+v, and is %+v", part, first[part], a)
			}
		}
	}
	s.Close()
	want := map[string]int{}
	for _, source := range []string{"config", "journal", "ticks", "history", "connect", "agent", "configuration", "settings", "servers", "links", "starts", "next start", "database there",
		"ended", "pair", "tables", "schema", "other updaters", "rescuer", "own units", "close", "teleport-update.timer", "teleport-update.service", "teleport-update-recover.service", "tbot.service",
		systemd.StartOfUnits, "reach"} {
		want[source] = 1
	}
	if !maps.Equal(c.reads, want) {
		t.Errorf("sources were read %v times, want %v", c.reads, want)
	}
}

// What cannot be read is not taken for what is not there: the parts that follow from it say why, and no
// others do.
func TestAPartThatCannotBeReadSaysWhy(t *testing.T) {
	broken := errors.New("input/output error")
	for _, tc := range []struct {
		source string
		why    error
		parts  []string // sorted
	}{
		{"config", broken, []string{"config", "damage", "links", "pair", "starts", "version"}},
		{"journal", broken, []string{"journal"}},
		{"history", broken, []string{"history"}},
		{"connect", broken, []string{"agent", "delay", "needs", "next start", "own units", "pair", "recovery", "recovery needs", "starts", "starts again"}},
		{"agent", broken, []string{"agent", "delay", "needs", "next start", "pair", "starts"}},
		{systemd.StartOfUnits, broken, []string{"delay"}},
		{"teleport-update.timer", broken, []string{"own units", "recovery", "recovery needs"}},
		{"teleport-update.service", broken, []string{"own units", "recovery", "recovery needs"}},
		{"teleport-update-recover.service", broken, []string{"own units", "recovery", "recovery needs"}},
		{"links", broken, []string{"links"}},
		{"next start", fmt.Errorf("look at the program: %w", fs.ErrPermission), []string{"next start", "starts"}},
		{"tbot.service", broken, []string{"starts again"}},
		{"database there", fmt.Errorf("look at the database: %w", fs.ErrPermission), []string{"starts"}},
		{"reach", broken, []string{"needs"}},
		{"pair", broken, []string{"pair"}},
		{"ended", broken, []string{"fits"}},
		{"tables", broken, []string{"fits"}},
		{"configuration", broken, []string{"configuration"}},
		{"servers", broken, []string{"servers"}},
		{"schema", broken, []string{"fits", "pair"}},
		{"rescuer", broken, []string{"rescuer"}},
	} {
		c := counted{map[string]int{}, tc.source, tc.why}
		s, _ := surveyOf(t, c)
		for range 2 {
			var parts []string
			for part, a := range all(s, t.Context()) {
				if errors.Is(a.err, tc.why) {
					parts = append(parts, part)
				} else if a.err != nil {
					t.Errorf("without %s, %s says %v", tc.source, part, a.err)
				}
			}
			if slices.Sort(parts); !slices.Equal(parts, tc.parts) {
				t.Errorf("without %s, these parts say why: %q, want %q", tc.source, parts, tc.parts)
			}
		}
		if n := c.reads[tc.source]; n != 1 {
			t.Errorf("%s, which cannot be read, is read %d times", tc.source, n)
		}
	}
}

// So it is with files that the survey reads itself. A file in the place of a folder is an error, and not
// a folder that is not there.
func TestAFileThatCannotBeReadSaysWhy(t *testing.T) {
	for what, tc := range map[string]struct {
		gone, file []string
		parts      []string // sorted
	}{
		"the store":     {[]string{"data/versions", "proc/47"}, []string{"data/versions"}, []string{"damage", "links", "pair", "starts", "version"}},
		"the processes": {[]string{"proc"}, []string{"proc"}, []string{"companions", "late", "other agents"}},
		"the mounts":    {gone: []string{"proc/self/mountinfo"}, parts: []string{"late"}},
	} {
		s, root := surveyOf(t, counted{reads: map[string]int{}})
		for _, path := range tc.gone {
			if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range tc.file {
			if err := os.WriteFile(filepath.Join(root, path), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var blind []string
		for part, a := range all(s, t.Context()) {
			if a.err != nil {
				blind = append(blind, part)
			}
		}
		if slices.Sort(blind); !slices.Equal(blind, tc.parts) {
			t.Errorf("without %s, these parts say why: %q, want %q", what, blind, tc.parts)
		}
	}
}

func TestAProgramThatCannotBeExecutedIsToldFromOneThatCannotBeSeen(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "teleport")
	write := func(mode os.FileMode) {
		t.Helper()
		_ = os.Remove(program)
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		prepare func()
		usable  bool
	}{
		"it can be":     {func() { write(0o755) }, true},
		"it may not be": {func() { write(0o644) }, false},
		"it is gone":    {func() { _ = os.Remove(program) }, false},
		"a folder":      {func() { _ = os.Remove(program); _ = os.Mkdir(program, 0o755) }, false},
	} {
		tc.prepare()
		if why, err := executable.Why(program); err != nil || (why == nil) != tc.usable {
			t.Errorf("%s: %v, %v", name, why, err)
		}
	}
	if why, err := executable.Why(filepath.Join(dir, string(make([]byte, 300)))); why != nil || err == nil {
		t.Errorf("a name that the kernel refuses: %v, %v", why, err)
	}
}

func TestAFolderOfUnitsIsThereAtBootOrNot(t *testing.T) {
	proc := procfs.FS{Proc: t.TempDir()}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(proc.Proc, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "var", "usrlocal"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "local2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("var/usrlocal", filepath.Join(dir, "local")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ mount, units, want string }{
		"on /":                          {"/elsewhere", filepath.Join(dir, "local", "systemd"), ""},
		"a mount above it":              {filepath.Join(dir, "local2"), filepath.Join(dir, "local2", "lib", "systemd"), filepath.Join(dir, "local2")},
		"a link that leads to a mount":  {filepath.Join(dir, "var"), filepath.Join(dir, "local", "lib", "systemd"), filepath.Join(dir, "var")},
		"a mount with a similar name":   {filepath.Join(dir, "var", "usrlo"), filepath.Join(dir, "var", "usrlocal"), ""},
		"/usr, which is there at boot":  {"/usr", "/usr/lib/systemd/system", ""},
		"/usr/local, below it, is late": {"/usr/local", "/usr/local/lib/systemd/system", "/usr/local"},
	} {
		text := "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / " + tc.mount + " rw - ext4 /dev/sda2 rw\n"
		if err := os.WriteFile(filepath.Join(proc.Proc, "self", "mountinfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := LateMount(proc.MountAt, Boot{Containers: []string{filepath.Join(dir, "none")}}, tc.units); err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}
